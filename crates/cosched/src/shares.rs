//! Fair boost: coscheduling that keeps to fair shares of the processor.
//!
//! The thesis finds that periodic boost favours jobs that communicate, and leaves a criterion of
//! fairness open (§6.2.3, §7). Here the criterion is: while *n* jobs are ready to run, each gets
//! one *n*th of the processor, whether it is parallel, sequential, or waits for a device most of
//! the time.
//!
//! Time is divided into slices by a clock that the nodes share (a time protocol's precision, a
//! fraction of a slice, is enough). Each slice belongs to the job with the highest number for it;
//! the number is a function of slice and job alone, so that nodes boost the same job at the same
//! time without exchanging messages. A job that has had more than its share, because others slept
//! in their slices, gives up its slice to the job that has had least. A process that sleeps on a
//! device most of the time and is below its share runs as soon as it is seen awake: it saves up at
//! most a slice.

use alloc::vec::Vec;

use crate::strategy::Settings;
use crate::view::{Process, View};

/// How many slices a process may be ahead of its share before it gives up a slice.
const SLACK: i64 = 8;

/// One process's account.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Its processor time at the last update.
    cpu_ns: u64,
    /// Its fair share so far, less the processor time that it has had.
    lag_ns: i64,
    /// The process has slept on a device, and has not been ahead of its share since.
    has_slept: bool,
}

/// The number that a job draws for a slice. All nodes compute the same, and the highest of the jobs present wins (rendezvous
/// hashing), so that nodes with different jobs still agree on those that they share. The mixing is that of SplitMix64.
fn draw(slice: u64, job: u64) -> (u64, u64) {
    let mut mixed =
        slice.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ job.wrapping_mul(0xd1b5_4a32_d192_ed03);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31), job)
}

/// The accounts of a node's processes.
#[derive(Clone, Debug)]
pub struct Shares {
    slice_ns: u64,
    last_ns: Option<u64>,
    accounts: Vec<Account>,
    owner: Option<Process>,
}

impl Shares {
    /// Accounts of a node on which nothing has run.
    pub fn new(settings: &Settings) -> Self {
        Self {
            slice_ns: settings.slice_ns.max(1),
            last_ns: None,
            accounts: Vec::new(),
            owner: None,
        }
    }

    /// Whether the current slice is this process's.
    pub fn is_owner(&self, process: Process) -> bool {
        self.owner == Some(process)
    }

    /// Brings the accounts up to date and returns the process to boost now. That is, of the awake processes that have slept on a device and not been
    /// ahead of their share since, the one that is furthest behind. If there is none, it is the owner of the slice; or, if the owner is ahead by more
    /// than `SLACK` slices, the awake process that is furthest behind. `None` if the owner is to be boosted and sleeps.
    pub fn pick(&mut self, now_ns: u64, views: &[View]) -> Option<Process> {
        self.settle(now_ns, views);
        let present = || (0..views.len()).filter(|&place| !views[place].is_gone);
        let slice = now_ns / self.slice_ns;
        let owner = present().max_by_key(|&place| draw(slice, views[place].job))?;
        let limit = SLACK * i64::try_from(self.slice_ns).unwrap_or(i64::MAX / SLACK);
        let furthest_behind = |places: &mut dyn Iterator<Item = usize>| {
            places
                .filter(|&place| !views[place].is_asleep)
                .max_by_key(|&place| (self.lag(place), core::cmp::Reverse(place)))
        };
        let has_slept = |place: &usize| {
            let account = self.accounts.get(*place);
            account.is_some_and(|account| account.has_slept)
        };
        let chosen = furthest_behind(&mut present().filter(has_slept))
            .or_else(|| match self.lag(owner) < -limit {
                true => furthest_behind(&mut present()),
                false => None,
            })
            .unwrap_or(owner);
        self.owner = Process::try_from(chosen).ok();
        self.owner.filter(|_| !views[chosen].is_asleep)
    }

    fn lag(&self, place: usize) -> i64 {
        self.accounts.get(place).map_or(0, |account| account.lag_ns)
    }

    /// Distributes the time since the last update over the processes that wanted the processor or
    /// had it.
    fn settle(&mut self, now_ns: u64, views: &[View]) {
        self.accounts.resize(views.len(), Account::default());
        let elapsed = now_ns.saturating_sub(self.last_ns.unwrap_or(now_ns));
        self.last_ns = Some(now_ns);
        let pairs = || views.iter().zip(&self.accounts);
        let wants = |view: &View, account: &Account| {
            !view.is_gone && (!is_blocked_elsewhere(view) || view.cpu_ns > account.cpu_ns)
        };
        // Processes that do not want the processor now save up their share for when they wake.
        let saved = i64::try_from(self.slice_ns).unwrap_or(i64::MAX);
        let wanting = pairs().filter(|(view, account)| wants(view, account));
        let fair = i64::try_from(elapsed / wanting.count().max(1) as u64).unwrap_or(i64::MAX);
        let limit = SLACK * i64::try_from(self.slice_ns).unwrap_or(i64::MAX / SLACK);
        for (view, account) in views.iter().zip(&mut self.accounts) {
            if view.is_gone {
                *account = Account::default();
                continue;
            }
            let share = match wants(view, account) {
                true => fair,
                false => fair.min((saved - account.lag_ns).max(0)),
            };
            let used = view.cpu_ns.saturating_sub(account.cpu_ns);
            let used = i64::try_from(used).unwrap_or(i64::MAX);
            let lag = account.lag_ns.saturating_add(share).saturating_sub(used);
            account.lag_ns = lag.clamp(-4 * limit, limit);
            account.cpu_ns = view.cpu_ns;
            account.has_slept =
                account.lag_ns >= 0 && (account.has_slept || is_blocked_elsewhere(view));
        }
    }
}

/// Whether a process is blocked on something other than a message. A process that waits for a
/// message would compute if its job were further ahead.
fn is_blocked_elsewhere(view: &View) -> bool {
    view.is_asleep && !view.awaits_message && !view.is_gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Strategy;

    const SLICE_NS: u64 = 50_000_000;

    fn shares() -> Shares {
        Shares::new(&Settings {
            strategy: Strategy::FB,
            spin_ns: 1,
            blocks_again: false,
            period_ns: 10_000_000,
            slice_ns: SLICE_NS,
        })
    }

    /// Runs for `slices` whichever process is picked, and returns the time that each process has had.
    /// Sleepers do not want to run.
    fn serve(shares: &mut Shares, views: &mut [View], slices: u64) -> Vec<u64> {
        let step = SLICE_NS / 5;
        for period in 0..slices * 5 {
            let picked = shares.pick(period * step, views);
            let runs = picked.map(usize::from).or_else(|| {
                let ready = |view: &View| !view.is_gone && !view.is_asleep;
                views.iter().position(ready)
            });
            if let Some(place) = runs {
                views[place].cpu_ns += step;
            }
        }
        views.iter().map(|view| view.cpu_ns / SLICE_NS).collect()
    }

    fn jobs(count: u64) -> Vec<View> {
        let view = |job| View {
            job,
            ..View::default()
        };
        (0..count).map(view).collect()
    }

    #[test]
    fn nodes_with_the_same_jobs_boost_the_same_job_in_whatever_order_they_know_them() {
        let (mut one, mut other) = (shares(), shares());
        let mut turned = jobs(3);
        turned.rotate_left(1);
        let straight = jobs(3);
        for slice in 0..7 {
            let job = |picked: Option<Process>, views: &[View]| {
                picked.map(|place| views[usize::from(place)].job)
            };
            let now = slice * SLICE_NS;
            assert_eq!(
                job(one.pick(now, &straight), &straight),
                job(other.pick(now, &turned), &turned)
            );
        }
    }

    #[test]
    fn jobs_that_compute_have_equal_shares() {
        let had = serve(&mut shares(), &mut jobs(4), 400);
        for had in &had {
            assert!(had.abs_diff(100) <= 10, "{had:?}");
        }
    }

    #[test]
    fn nodes_agree_on_the_jobs_that_they_share() {
        let (mut one, mut other) = (shares(), shares());
        let all = jobs(4);
        let agreed = (0..1_000).filter(|slice| {
            let now = slice * SLICE_NS;
            let (mine, theirs) = (one.pick(now, &all), other.pick(now, &all[..3]));
            mine != Some(3) && mine == theirs
        });
        // The fourth job has a quarter of the slices of the node that it is on.
        let agreed = agreed.count();
        assert!((700..800).contains(&agreed), "{agreed}");
    }

    #[test]
    fn a_process_that_has_slept_runs_when_it_wakes_until_it_has_had_its_share() {
        let mut shares = shares();
        let mut views = jobs(4);
        views[3].is_asleep = true;
        serve(&mut shares, &mut views, 20);
        views[3].is_asleep = false;
        let before = views[3].cpu_ns;
        let step = SLICE_NS / 5;
        let mut ran = 0;
        for period in 100..150 {
            let picked = shares.pick(period * step, &views).map(usize::from);
            if picked != Some(3) {
                break;
            }
            ran += 1;
            views[3].cpu_ns += step;
        }
        // What it has saved, and a quarter of the time that it takes to use it up.
        assert!((5..=9).contains(&ran), "{ran}");
        assert!(views[3].cpu_ns > before);
    }

    #[test]
    fn what_a_sleeper_leaves_goes_to_all_others() {
        let mut views = jobs(3);
        views[2].is_asleep = true;
        let had = serve(&mut shares(), &mut views, 300);
        assert_eq!(had[2], 0);
        // Without accounts the first process would run in all of the sleeper's slices.
        assert!(had[0].abs_diff(had[1]) <= 30, "{had:?}");
    }

    #[test]
    fn a_job_that_ends_leaves_its_slices() {
        let mut views = jobs(3);
        views[1].is_gone = true;
        let had = serve(&mut shares(), &mut views, 400);
        assert_eq!(had[1], 0);
        assert!(had[0].abs_diff(had[2]) <= 20, "{had:?}");
        assert_eq!(shares().pick(0, &[]), None);
    }
}
