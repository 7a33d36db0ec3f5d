//! Stages of reads and writes, and the time that each takes.

use std::time::Instant;

/// Time spent in one stage of an operation, for breakdowns.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The stage's name, such as `write: plan`, `write: servers`.
    pub name: &'static str,
    /// Microseconds, summed.
    pub total_us: f64,
    /// The number of times.
    pub count: u64,
}

/// Adds to a stage's sum.
pub(super) fn add(stages: &mut Vec<Stage>, name: &'static str, us: f64) {
    match stages.iter_mut().find(|stage| stage.name == name) {
        Some(stage) => {
            stage.total_us += us;
            stage.count += 1;
        }
        None => stages.push(Stage {
            name,
            total_us: us,
            count: 1,
        }),
    }
}

/// Cuts the run of one operation into stages; costs nothing unless stages are recorded.
pub(super) struct StageClock(Option<Instant>);

impl StageClock {
    pub(super) fn start(record: bool) -> Self {
        Self(record.then(Instant::now))
    }

    /// Ends a wait for servers, split into `names` for messages, copying and storage by the busiest server's times for
    /// the latter two, and begins the next stage.
    pub(super) fn next_of(
        self,
        stages: &mut Vec<Stage>,
        names: &[&'static str; 3],
        (copy_us, storage_us): (u32, u32),
    ) -> Self {
        let Some(since) = self.0 else { return self };
        let now = Instant::now();
        let all_us = now.duration_since(since).as_secs_f64() * 1e6;
        let (copy_us, storage_us) = (f64::from(copy_us), f64::from(storage_us));
        // A server's pieces overlap, so that its sums may exceed the wait: then the wait is divided in proportion.
        let scale = (all_us / (copy_us + storage_us).max(1.0)).min(1.0);
        let (copy_us, storage_us) = (copy_us * scale, storage_us * scale);
        add(stages, names[0], all_us - copy_us - storage_us);
        add(stages, names[1], copy_us);
        add(stages, names[2], storage_us);
        Self(Some(now))
    }

    /// Ends a stage and begins the next one.
    pub(super) fn next(self, stages: &mut Vec<Stage>, name: &'static str) -> Self {
        let Some(since) = self.0 else { return self };
        let now = Instant::now();
        add(stages, name, now.duration_since(since).as_secs_f64() * 1e6);
        Self(Some(now))
    }
}
