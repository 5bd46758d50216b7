//! The point of a codebook that is nearest to some elements, by costs that the elements have at each level.
//!
//! A place of the lattice is spelled with four digits. A digit is a coordinate of 8 levels, or two coordinates of 3: number k and
//! k + 4. So the cost of a point is a sum of four numbers from a table. Where the best place of the lattice is no point of the book,
//! those near it are tried: a list for each place, made once.

/// How many points are tried at most.
const NEAR: usize = 32;

/// What stands for "no point".
const NO_POINT: u16 = u16::MAX;

/// The cost of each digit (first index) at each of the four places; those of a second point come after the first one's.
pub(super) type Costs = [[f32; 8]; 16];

/// The four digits of a place of the lattice, the first one in the lowest four bits.
pub(super) type Digits = u16;

/// A codebook that can be searched.
pub(super) struct Book {
    /// How many digits there are: 9 or 8.
    radix: usize,
    /// The number of the point at each place of the lattice, or [`NO_POINT`].
    numbers: Vec<u16>,
    /// The points nearest to each place without one, by distance.
    near: Vec<[Digits; NEAR]>,
    /// How many of them are tried, in eights.
    eights: usize,
}

impl Book {
    /// Makes the lists of the `N` points of `D` coordinates, which have `levels`, to try `eights` times eight of a list.
    pub fn new<const D: usize, const N: usize, const L: usize>(
        points: &[[i8; D]; N],
        levels: &[i8; L],
        eights: usize,
    ) -> Book {
        let radix = L.pow(D as u32 / 4);
        let spelled = |point: &[i8; D]| {
            let level = |i: usize| levels.iter().position(|&level| level == point[i]).unwrap_or(0);
            (0..4).fold(0, |digits, k| {
                let digit = (k..D).step_by(4).rev().fold(0, |digit, i| digit * L + level(i));
                digits | (digit as Digits) << (4 * k)
            })
        };
        let points: Vec<Digits> = points.iter().map(spelled).collect();
        let mut numbers = vec![NO_POINT; radix.pow(4)];
        for (number, &point) in (0..).zip(&points) {
            numbers[place(point, radix)] = number;
        }
        // Squared distances of digits.
        let coordinate = |digit: usize, i: usize| i32::from(levels[digit / L.pow(i as u32) % L]);
        let apart = |a: usize, b: usize| (0..D / 4).map(|i| (coordinate(a, i) - coordinate(b, i)).pow(2) as u32).sum();
        let distances: Vec<[u32; 16]> =
            (0..radix).map(|a| std::array::from_fn(|b| if b < radix { apart(a, b) } else { 0 })).collect();
        let mut by_distance = vec![(0, 0); N];
        let near = (0..numbers.len()).map(|at| {
            let mut list = [0; NEAR];
            if numbers[at] == NO_POINT {
                let rows: [&[u32; 16]; 4] = std::array::from_fn(|k| &distances[at / radix.pow(k as u32) % radix]);
                for (entry, &point) in by_distance.iter_mut().zip(&points) {
                    *entry = ((0..4).map(|k| rows[k][digit(point, k)]).sum::<u32>(), point);
                }
                let (nearest, ..) = by_distance.select_nth_unstable(NEAR);
                nearest.sort_unstable();
                list.iter_mut().zip(nearest).for_each(|(slot, (_, point))| *slot = *point);
            }
            list
        });
        let near = near.collect();
        Book { radix, numbers, near, eights }
    }

    /// The number of a point.
    pub fn number(&self, point: Digits) -> u16 {
        self.numbers[place(point, self.radix)]
    }

    /// The point of least cost and its cost, where `best` is the place of least cost in the lattice. `FROM` is 0, or 4 for the costs of
    /// a second point.
    #[inline(always)]
    pub fn nearest<const FROM: usize>(&self, costs: &Costs, best: Digits) -> (Digits, f32) {
        let at = place(best, self.radix);
        if self.numbers[at] != NO_POINT {
            return (best, of::<FROM>(costs, best));
        }
        let near = self.near[at].as_chunks::<8>().0;
        let mut all = [[f32::INFINITY; 8]; NEAR / 8];
        // The least in each of eight columns, and of these: no chain through all.
        let mut columns = [f32::INFINITY; 8];
        for (all, near) in all.iter_mut().zip(near).take(self.eights) {
            for ((cost, &point), least) in all.iter_mut().zip(near).zip(&mut columns) {
                *cost = of::<FROM>(costs, point);
                *least = if *cost < *least { *cost } else { *least };
            }
        }
        let least = columns.iter().fold(f32::INFINITY, |least, &cost| if cost < least { cost } else { least });
        let first = all.as_flattened().iter().position(|&cost| cost == least).unwrap_or(0);
        (near[first / 8][first % 8], least)
    }
}

#[inline(always)]
fn digit(digits: Digits, k: usize) -> usize {
    usize::from(digits >> (4 * k)) & 15
}

#[inline(always)]
fn place(digits: Digits, radix: usize) -> usize {
    (digit(digits, 3) * radix + digit(digits, 2)) * (radix * radix) + digit(digits, 1) * radix + digit(digits, 0)
}

#[inline(always)]
fn of<const FROM: usize>(costs: &Costs, point: Digits) -> f32 {
    let at = |k: usize| costs[digit(point, k)][FROM + k];
    (at(0) + at(1)) + (at(2) + at(3))
}
