//! Choices of formats for a size: against all choices that there are, and on costs that do not add up.

use std::convert::Infallible;

use candor_convert::{Offer, allocate, search};
use candor_gguf::Format;
use candor_testing::Random;

const FORMATS: [Format; 4] = [Format::Q2K, Format::Q4K, Format::Q6K, Format::F16];

fn bytes(offers: &[Vec<Offer>], places: &[usize]) -> u64 {
    offers.iter().zip(places).map(|(offers, &place)| offers[place].bytes).sum()
}

fn cost(offers: &[Vec<Offer>], places: &[usize]) -> f64 {
    offers.iter().zip(places).map(|(offers, &place)| offers[place].cost).sum()
}

/// Offers of tensors of some sizes and sensitivities: a bit more is a quarter of the squared error.
fn tensors(random: &mut Random, count: usize) -> Vec<Vec<Offer>> {
    let mut unit = || f64::from(random.signed()) / 2.0 + 0.5;
    let tensor = |_| {
        let (size, sensitivity) = (1 + (unit() * 20.0) as u64, 10f64.powf(3.0 * unit()));
        let offer = |(format, bits): (Format, u64)| Offer {
            format,
            bytes: size * bits,
            cost: sensitivity * 4f64.powi(-(bits as i32)),
        };
        FORMATS.into_iter().zip([2, 4, 6, 16]).map(offer).collect()
    };
    (0..count).map(tensor).collect()
}

/// All choices.
fn all(offers: &[Vec<Offer>]) -> Vec<Vec<usize>> {
    offers.iter().fold(vec![Vec::new()], |choices, offers| {
        let with = |choice: &Vec<usize>, place| [&choice[..], &[place]].concat();
        choices.iter().flat_map(|choice| (0..offers.len()).map(move |place| with(choice, place))).collect()
    })
}

#[test]
fn choices_are_near_the_best_there_is() {
    let mut random = Random(3);
    for round in 0..40 {
        let offers = tensors(&mut random, 6);
        let (least, most) = (bytes(&offers, &[0; 6]), bytes(&offers, &[3; 6]));
        let budget = least + (most - least) * (round % 10) / 10;
        let chosen = allocate(&offers, budget).expect("the smallest fit");
        assert!(bytes(&offers, &chosen) <= budget, "{round}");
        let fits = all(&offers).into_iter().filter(|places| bytes(&offers, places) <= budget);
        let best = fits.map(|places| cost(&offers, &places)).fold(f64::INFINITY, f64::min);
        assert!(cost(&offers, &chosen) <= 1.2 * best, "{round}: {} {best}", cost(&offers, &chosen));
        assert_eq!(allocate(&offers, least - 1), None);
        assert_eq!(allocate(&offers, most), Some(vec![3; 6]));
    }
}

#[test]
fn a_large_tensor_that_costs_nothing_pays_for_the_others() {
    let offer = |bytes, cost| Offer { format: Format::Q4K, bytes, cost };
    let dear = vec![offer(2, 1.0), offer(4, 0.1), offer(8, 0.001)];
    let cheap = vec![offer(200, 0.002), offer(400, 0.001)];
    assert_eq!(allocate(&[dear.clone(), cheap.clone(), dear], 216), Some(vec![2, 0, 2]));
    assert_eq!(allocate(&[cheap, Vec::new()], 1000), None, "a tensor without an offer");
}

/// Costs of tensors that feed each other: what two get together is not the sum.
#[test]
fn exchanges_find_what_costs_alone_hide() {
    let mut random = Random(5);
    for round in 0..8 {
        let offers = tensors(&mut random, 5);
        let twin: Vec<f64> = (0..5).map(|_| f64::from(random.signed())).collect();
        let whole = |places: &[Option<usize>]| {
            let roots = places.iter().enumerate().map(|(tensor, place)| {
                place.map_or(0.0, |place| offers[tensor][place].cost.sqrt() * twin[tensor].signum())
            });
            let alone: f64 = places
                .iter()
                .enumerate()
                .map(|(tensor, place)| place.map_or(0.0, |place| offers[tensor][place].cost))
                .sum();
            alone + 0.5 * roots.sum::<f64>().powi(2)
        };
        let budget = bytes(&offers, &[0; 5]) + (bytes(&offers, &[3; 5]) - bytes(&offers, &[0; 5])) / 4;
        let start = vec![0; 5];
        let mut asked = 0;
        let mut ask = |runs| {
            search(&offers, budget, std::slice::from_ref(&start), runs, |places| {
                asked += 1;
                Ok::<_, Infallible>(whole(places))
            })
            .expect("no error")
            .expect("it fits")
        };
        let (few, many) = (ask(7), ask(60));
        assert_eq!(asked, few.runs + many.runs);
        assert!(few.runs <= 7 && many.runs <= 60, "{few:?} {many:?}");
        assert!(many.measured <= few.measured && bytes(&offers, &many.places) <= budget, "{round}");
        let fits = all(&offers).into_iter().filter(|places| bytes(&offers, places) <= budget);
        let some = |places: &[usize]| places.iter().copied().map(Some).collect::<Vec<_>>();
        let best = fits.map(|places| whole(&some(&places))).fold(f64::INFINITY, f64::min);
        assert!(many.measured <= 1.1 * best, "{round}: {} {best} after {} runs", many.measured, many.runs);
        assert_eq!(many.measured, whole(&some(&many.places)));
    }
}

#[test]
fn the_search_ends_at_no_worse_than_its_starts() {
    let offers = tensors(&mut Random(9), 5);
    // Errors say nothing of these costs.
    let odd =
        |places: &[Option<usize>]| if places == [Some(1), Some(0), Some(2), Some(0), Some(1)] { 0.0 } else { 1.0 };
    let start = vec![1, 0, 2, 0, 1];
    let budget = bytes(&offers, &start);
    let found = search(&offers, budget, std::slice::from_ref(&start), 10, |places| Ok::<_, Infallible>(odd(places)));
    let found = found.expect("no error").expect("it fits");
    assert_eq!((found.places, found.measured, found.starts), (start, 0.0, vec![Some(0.0)]));
}
