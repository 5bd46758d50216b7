use std::rc::Rc;

use super::*;

#[test]
fn a_page_is_shared_until_somebody_writes() {
    let mut pages = Pages::new(3, 2 * PAGE + 1, 9);
    assert_eq!((pages.count(), pages.free(), pages.of(1)), (9, 9, &[ABSENT; 3][..]));
    assert_eq!(pages.reserve(1, PAGE..PAGE + 1), Ok(vec![]));
    assert_eq!((pages.free(), pages.of(1)), (8, &[ABSENT, 4, ABSENT][..]));
    assert_eq!(pages.reserve(0, 0..PAGE + 1), Ok(vec![]));
    pages.share(0, 1, PAGE + 1);
    pages.share(1, 2, PAGE + 1);
    assert_eq!([pages.of(0), pages.of(1), pages.of(2)], [&[0, 1, ABSENT]; 3]);
    assert_eq!(pages.free(), 7);
    // The first one that writes moves home, even the one that had the page before.
    assert_eq!(pages.reserve(1, PAGE + 1..PAGE + 2), Ok(vec![Moved { from: 1, to: 4 }]));
    assert_eq!(pages.reserve(0, PAGE + 1..PAGE + 2), Ok(vec![Moved { from: 1, to: 2 }]));
    assert_eq!(pages.reserve(2, PAGE + 1..PAGE + 2), Ok(vec![]));
    assert_eq!([pages.of(0), pages.of(1), pages.of(2)], [[0, 2, ABSENT], [0, 4, ABSENT], [0, 1, ABSENT]]);
    // With itself there is nothing to share.
    pages.share(2, 2, 3);
    assert_eq!(pages.of(2), [0, 1, ABSENT]);
    assert_eq!(pages.release(2, 1), 1);
    assert_eq!((pages.release(1, 0), pages.free()), (2, 7));
    assert_eq!((pages.release(0, 0), pages.release(2, 0), pages.free()), (2, 1, 9));
}

/// Alone in the pool, whatever others had before, a sequence is read in one run; and so are all that fit in evenly.
#[test]
fn pages_follow_each_other_where_they_can() {
    const EACH: usize = 4;
    let run = |pages: &Pages, sequence| pages.of(sequence).windows(2).all(|pair| pair[1] == pair[0] + 1);
    for (sequences, count) in [(1, 4), (8, 4), (8, 10), (3, 12), (8, 32)] {
        let mut pages = Pages::new(sequences, EACH * PAGE, count);
        for sequence in 0..sequences {
            for position in (0..EACH * PAGE).step_by(100) {
                assert_eq!(pages.reserve(sequence, position..position + 1), Ok(vec![]));
            }
            assert!(run(&pages, sequence), "{sequences}, {count}: {:?}", pages.of(sequence));
            pages.release(sequence, 0);
        }
        if count == sequences * EACH {
            (0..sequences).for_each(|sequence| assert_eq!(pages.reserve(sequence, 0..EACH * PAGE), Ok(vec![])));
            assert!((0..sequences).all(|sequence| run(&pages, sequence)), "{pages:?}");
            assert_eq!(pages, Pages::apart(sequences, EACH * PAGE));
        }
    }
}

#[test]
fn a_page_away_from_home_is_followed_there() {
    let mut pages = Pages::new(3, 4 * PAGE, 12);
    assert_eq!(pages.reserve(1, 0..PAGE), Ok(vec![]));
    pages.share(1, 2, PAGE);
    pages.release(1, 0);
    for position in [0, PAGE] {
        assert_eq!(pages.reserve(1, position..position + 1), Ok(vec![]));
    }
    assert_eq!(pages.of(1), [0, 1, ABSENT, ABSENT]);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let mut pages = Pages::new(2, 3 * PAGE, 3);
    assert_eq!(pages.reserve(0, 0..PAGE + 1), Ok(vec![]));
    pages.share(0, 1, PAGE);
    let before = pages.clone();
    // A copy of the shared one, and two more.
    assert_eq!(pages.reserve(1, 5..2 * PAGE + 1), Err(Full { needed: 3, free: 1 }));
    assert_eq!(pages, before);
    assert_eq!(pages.reserve(1, 9..9), Ok(vec![]), "nothing needs no page");
    assert_eq!(pages, before);
    let message = Full { needed: 3, free: 1 }.to_string();
    assert_eq!(message, "cache is full: expected 3 free pages, got 1");
}

/// What a page holds, which its sequences have in common.
type Held = Rc<usize>;

/// Sequences as lists of what each of their pages holds, through many steps: in pools that hold little of what is promised, and
/// all of it.
#[test]
fn sequences_keep_what_they_have() {
    const SEQUENCES: usize = 4;
    const EACH: usize = 5;
    for count in [3, 7, 12, SEQUENCES * EACH] {
        let mut seed = 7u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        let mut pages = Pages::new(SEQUENCES, EACH * PAGE, count);
        let mut held = vec![0; count];
        let mut expected: [[Option<Held>; EACH]; SEQUENCES] = Default::default();
        let (mut moves, mut refusals) = (0, 0);
        for step in 1..5000 {
            let (sequence, first) = (random(SEQUENCES), random(EACH));
            let last = first + random(EACH - first);
            let used = used(&expected);
            match random(6) {
                0 => {
                    let to = random(SEQUENCES);
                    pages.share(sequence, to, last * PAGE + 1);
                    if sequence != to {
                        let own = expected[sequence].clone();
                        expected[to] = Default::default();
                        expected[to][..=last].clone_from_slice(&own[..=last]);
                    }
                }
                1 => {
                    let had = expected[sequence][first..].iter_mut().filter_map(Option::take).count();
                    assert_eq!(pages.release(sequence, (first * PAGE).saturating_sub(random(PAGE))), had);
                }
                _ => {
                    let range = first * PAGE + random(PAGE)..last * PAGE + PAGE;
                    let own = |held: &Option<Held>| held.as_ref().is_some_and(|held| Rc::strong_count(held) == 1);
                    let needed = expected[sequence][first..=last].iter().filter(|held| !own(held)).count();
                    match pages.reserve(sequence, range) {
                        Err(full) => {
                            assert_eq!(full, Full { needed, free: count - used });
                            assert!(needed > count - used);
                            refusals += 1;
                        }
                        Ok(moved) => {
                            assert!(needed <= count - used);
                            moves += moved.len();
                            moved.iter().for_each(|&Moved { from, to }| held[to] = held[from]);
                            for number in first..=last {
                                // What was there is still there until it is written over.
                                let place = &mut held[pages.page(sequence, number * PAGE)];
                                assert!(expected[sequence][number].as_deref().is_none_or(|before| place == before));
                                (*place, expected[sequence][number]) = (step, Some(Rc::new(step)));
                            }
                        }
                    }
                }
            }
            for (sequence, expected) in expected.iter().enumerate() {
                let got = pages.of(sequence).iter().map(|&page| (page != ABSENT).then(|| held[page as usize]));
                assert!(got.eq(expected.iter().map(|held| held.as_deref().copied())), "step {step}, {sequence}");
            }
            assert_eq!(pages.free(), count - self::used(&expected), "step {step}");
        }
        assert!(moves > 20 && (refusals > 0) == (count < SEQUENCES * EACH), "{count}: {moves}, {refusals}");
        (0..SEQUENCES).for_each(|sequence| _ = pages.release(sequence, 0));
        assert_eq!(pages, Pages { lowest: pages.lowest, ..Pages::new(SEQUENCES, EACH * PAGE, count) });
    }
}

/// How many pages those are, shared ones counted once.
fn used(expected: &[[Option<Held>; 5]; 4]) -> usize {
    let mut all: Vec<_> = expected.iter().flatten().flatten().map(Rc::as_ptr).collect();
    all.sort();
    all.dedup();
    all.len()
}
