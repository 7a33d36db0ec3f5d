//! Independent runs in parallel threads; results are in the order of the items.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use causeway_command::failure::{Failure, Outcome};

/// Runs `work` for each of `items` on `jobs` threads. After a failure nothing new is begun, and of several failures
/// that of the first item is returned.
pub(super) fn map<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Outcome<R> + Sync,
) -> Outcome<Vec<R>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Outcome<R>)>> = Mutex::new(Vec::new());
    let worker = || {
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return;
            };
            let result = work(item);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((index, result));
        }
    };
    std::thread::scope(|scope| -> Outcome {
        for number in 0..jobs.clamp(1, items.len().max(1)) {
            std::thread::Builder::new()
                .name(format!("simulate-{number}"))
                .spawn_scoped(scope, worker)
                .map_err(|error| {
                    failed.store(true, Ordering::Relaxed);
                    Failure::new("starting a thread", error)
                })?;
        }
        Ok(())
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        let items: Vec<u32> = (0..100).collect();
        for jobs in [1, 3, 200] {
            let squares = map(&items, jobs, |item| Ok(item * item)).unwrap();
            let wanted: Vec<u32> = items.iter().map(|item| item * item).collect();
            assert_eq!(squares, wanted);
        }
        assert!(map(&[], 4, |item: &u32| Ok(*item)).unwrap().is_empty());
    }

    #[test]
    fn the_first_failure_is_returned() {
        let items: Vec<u32> = (0..100).collect();
        let failure = map(&items, 4, |item| match item {
            3 | 50 => Err(Failure::new(format!("item {item}"), "no")),
            item => Ok(*item),
        });
        assert_eq!(failure.unwrap_err().what, "item 3");
    }
}
