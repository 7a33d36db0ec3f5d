//! Balanced dimensions (`MPI_Dims_create`, MPI 5.0 §8.5.2).

use std::collections::HashMap;

use super::error::Error;

/// Replaces the zeros among `dims` by numbers such that the product of all is `nodes`. The numbers are as close to each other as
/// that allows, which is to say that the largest is as small as possible, then the next; they descend.
pub fn balance(nodes: i32, dims: &mut [i32]) -> Result<(), Error> {
    let wrong = |dims: &[i32]| Error::Dims {
        nodes,
        dims: dims.to_vec(),
    };
    let mut given = 1_i64;
    for dim in dims.iter().filter(|dim| **dim != 0) {
        given = given.saturating_mul((*dim).into());
        if *dim < 0 {
            return Err(wrong(dims));
        }
    }
    let open = dims.iter().filter(|dim| **dim == 0).count();
    let rest = i64::from(nodes) / given;
    if nodes < 1 || rest * given != i64::from(nodes) || (open == 0 && rest != 1) {
        return Err(wrong(dims));
    }
    let mut search = Search::of(rest);
    let (mut rest, mut left) = (rest, open);
    for dim in dims.iter_mut().filter(|dim| **dim == 0) {
        let largest = search.largest(rest, left);
        // At most `nodes`.
        *dim = largest as i32;
        rest /= largest;
        left -= 1;
    }
    Ok(())
}

/// The search for factors.
struct Search {
    /// The divisors of the number that is to be factored, ascending.
    divisors: Vec<i64>,
    /// The results so far.
    known: HashMap<(i64, usize), i64>,
}

impl Search {
    fn of(number: i64) -> Self {
        let small = (1..).take_while(|it| it * it <= number);
        let small: Vec<i64> = small.filter(|it| number % it == 0).collect();
        let large = small.iter().rev().map(|it| number / it);
        let mut divisors: Vec<i64> = small.iter().copied().chain(large).collect();
        divisors.dedup();
        Self {
            divisors,
            known: HashMap::new(),
        }
    }

    /// The smallest number that the largest of `count` factors of a divisor can be.
    fn largest(&mut self, number: i64, count: usize) -> i64 {
        if count == 1 || number == 1 {
            return number;
        }
        if let Some(known) = self.known.get(&(number, count)) {
            return *known;
        }
        let mut at = 0;
        let found = loop {
            let factor = self.divisors[at];
            at += 1;
            if factor == number {
                break number;
            }
            // A power of the largest factor that is below the number shows that it is too small.
            let is_enough = number % factor == 0
                && factor
                    .checked_pow(count.min(63) as u32)
                    .is_none_or(|most| most >= number);
            if is_enough && self.largest(number / factor, count - 1) <= factor {
                break factor;
            }
        };
        self.known.insert((number, count), found);
        found
    }
}
