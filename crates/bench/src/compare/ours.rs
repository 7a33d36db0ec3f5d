//! Causeway's own processes, as one participant, and the machine's limits, as another.

use std::time::Duration;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::shutdown::ScratchDirectory;
use causeway_command::workers::{Event, Pool, Start};

use super::multi_process::{Assignment, LinkFigures, Order, Report, Role};
use super::trial::{Pattern, REPLY_BYTES, RINGS, Trial};
use crate::messages::effort::{COPY_BYTES, in_memory};
use crate::messages::pair::Pair;
use crate::messages::worker;
use crate::parts::figure::Figure;
use crate::task::Task;

/// How long a step of many processes may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many idle peers are connected, besides the one that is measured.
const IDLE_PEERS: [usize; 5] = [1, 4, 64, 512, 4096];
/// Connections that one process opens.
const HELD: usize = 512;
/// How many of the other peers send.
const ACTIVE_PEERS: usize = 64;

/// Our processes.
pub(crate) struct Ours {
    pair: Option<Pair>,
    scratch: ScratchDirectory,
    sockets: u64,
}

impl Ours {
    /// No process runs yet.
    pub(crate) fn new() -> Outcome<Self> {
        Ok(Self {
            pair: None,
            scratch: ScratchDirectory::new(&std::env::temp_dir(), "compare")?,
            sockets: 0,
        })
    }

    /// Runs a pattern once.
    pub(crate) fn run(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let figures = match trial.pattern {
            Pattern::Latency => self.latency(trial),
            Pattern::Bandwidth => self.bandwidth(trial),
            Pattern::Load => self.load(trial),
            Pattern::Ring => self.ring(trial),
            Pattern::Idle => self.idle(trial),
            Pattern::Pause | Pattern::Computing | Pattern::Contention => self.exchange(trial),
        };
        self.after(figures)
    }

    /// Whether the machine's limit is measured for a pattern.
    pub(crate) fn can_limit(trial: &Trial) -> bool {
        let shm = trial.method == "shm";
        match trial.pattern {
            Pattern::Latency => true,
            Pattern::Bandwidth | Pattern::Pause => shm,
            _ => false,
        }
    }

    /// The machine's limit for a pattern.
    pub(crate) fn limits(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let figures = match (trial.pattern, trial.method.as_str()) {
            (Pattern::Latency, "shm") => self.cache_line(trial),
            (Pattern::Latency, _) => self.bare_sockets(trial),
            (Pattern::Bandwidth, "shm") => self.copies(trial),
            (Pattern::Pause, "shm") => self.bare_futex(trial),
            _ => Ok(Vec::new()),
        };
        self.after(figures)
    }

    /// After a failure the two processes may be at different steps: the next trial starts a new pair.
    fn after(&mut self, figures: Outcome<Vec<Figure>>) -> Outcome<Vec<Figure>> {
        if figures.is_err() {
            self.pair = None;
        }
        figures
    }

    fn pair(&mut self, trial: &Trial) -> Outcome<&mut Pair> {
        if self.pair.is_none() {
            self.pair = Some(Pair::start(trial.effort)?);
        }
        self.pair
            .as_mut()
            .ok_or_else(|| Failure::new("starting the pair", "it is gone"))
    }

    fn latency(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let pair = self.pair(trial)?;
        pair.open(&trial.method)?;
        let mut figures = Vec::new();
        for &size in &trial.sizes {
            pair.check(size, false)?;
            let latency = pair.latency(&trial.method, size)?;
            let p99 = pair.p99(&trial.method, size)?;
            let case = format!("latency/{}", trial.method);
            figures.extend(Figure::latency(case.clone(), size, latency));
            figures.extend(Figure::latency(format!("{case}/p99"), size, p99));
        }
        Ok(figures)
    }

    fn exchange(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let Some(exchange) = trial.exchange() else {
            return Ok(Vec::new());
        };
        let pair = self.pair(trial)?;
        pair.open(&trial.method)?;
        pair.check(exchange.size as u64, false)?;
        let spread = pair.exchange(exchange)?;
        Ok(Figure::of_exchange(trial, &spread))
    }

    /// After a pause a message costs at least as much as waking a process by a futex.
    fn bare_futex(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let Some(exchange) = trial.exchange() else {
            return Ok(Vec::new());
        };
        let spread = self.pair(trial)?.bare_futex(exchange)?;
        let figure = Figure::latency("pause/futex-wake", 8, spread.median_us);
        Ok(figure.into_iter().collect())
    }

    fn bandwidth(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let pair = self.pair(trial)?;
        pair.open(&trial.method)?;
        let mut figures = Vec::new();
        let kinds: &[bool] = match trial.method.as_str() {
            "shm" => &[false, true],
            _ => &[false],
        };
        for &allocate in kinds {
            for size in trial.stream_sizes() {
                pair.check(size, allocate)?;
                let rate = pair.stream(size, allocate)?;
                let suffix = if allocate { "/shared-buffers" } else { "" };
                let case = format!("bandwidth/{}{suffix}", trial.method);
                figures.extend(Figure::of_stream(&case, &trial.method, size, rate));
            }
        }
        Ok(figures)
    }

    fn cache_line(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let latency = self.pair(trial)?.cache_line()?;
        let figure = Figure::latency("latency/cache-line", 8, latency);
        Ok(figure.into_iter().collect())
    }

    fn bare_sockets(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let pair = self.pair(trial)?;
        let mut figures = Vec::new();
        for &size in trial.sizes.iter().filter(|size| **size > 0) {
            let rounds = trial.effort.echoes(&trial.method, size);
            let latency = pair.bare(size, rounds, false)?;
            let case = "latency/bare-tcp-polling";
            figures.extend(Figure::latency(case, size, latency));
        }
        Ok(figures)
    }

    fn copies(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let pair = self.pair(trial)?;
        let mut figures = Vec::new();
        for size in trial.stream_sizes().filter(|size| *size >= COPY_BYTES) {
            let (case, rate) = ("bandwidth/memcpy", pair.copy(size)?);
            figures.extend(Figure::new(case, size, "bandwidth_mb_s", rate));
        }
        Ok(figures)
    }

    /// A fresh address to listen at.
    fn address(&mut self, method: &str) -> String {
        self.sockets += 1;
        match method {
            "tcp" => "tcp://127.0.0.1:0".to_owned(),
            _ => {
                let path = self.scratch.path().join(format!("{}.sock", self.sockets));
                format!("{method}://{}", path.display())
            }
        }
    }

    fn load(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let [server, others] = trial.processors;
        let mut figures = Vec::new();
        for size in REPLY_BYTES {
            let mut pool: Pool<Report> = Pool::default();
            let role = Role::Server {
                listen: self.address(&trial.method),
                clients: trial.clients,
                size: in_memory(size),
            };
            start(&mut pool, &[server], role)?;
            let address = listening(&mut pool)?;
            for _ in 0..trial.clients {
                let role = Role::Client {
                    address: address.clone(),
                    size: in_memory(size),
                    milliseconds: trial.milliseconds(),
                };
                start(&mut pool, &[others], role)?;
            }
            pool.start_together(PATIENCE)?;
            let reports = pool.gather(PATIENCE, "asking the server")?;
            let latencies: Vec<f64> = reports
                .into_iter()
                .filter_map(|report| match report {
                    Report::RequestLatency(latency) => Some(latency),
                    _ => None,
                })
                .collect();
            figures.extend(Figure::of_load(trial, size, &latencies));
        }
        Ok(figures)
    }

    fn ring(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let mut figures = Vec::new();
        for processes in RINGS {
            let mut pool: Pool<Report> = Pool::default();
            let mut addresses = Vec::new();
            for index in 0..processes {
                let own = trial.processors.get(index).map(std::slice::from_ref);
                let processors = match own {
                    Some(own) if processes == 2 => own,
                    _ => &trial.processors,
                };
                let role = Role::Link {
                    listen: self.address(&trial.method),
                    first: index == 0,
                    milliseconds: trial.milliseconds(),
                    pause_ms: trial.pause_ms(),
                };
                start(&mut pool, processors, role)?;
                addresses.push(listening(&mut pool)?);
            }
            for (number, next) in addresses.iter().cycle().skip(1).take(processes).enumerate() {
                pool.send(number, &Order::Next(next.clone()))?;
            }
            pool.start_together(PATIENCE)?;
            let reports = pool.gather(PATIENCE, "passing the token")?;
            for number in 0..processes {
                pool.send(number, &Start)?;
            }
            let links: Vec<LinkFigures> = reports
                .into_iter()
                .filter_map(|report| match report {
                    Report::Link(figures) => Some(figures),
                    _ => None,
                })
                .collect();
            let ring = LinkFigures::together(&links, trial.pause_ms());
            let ring =
                ring.ok_or_else(|| Failure::new("passing the token", "no link reported it"))?;
            figures.extend(Figure::of_ring(&trial.method, processes, &ring));
        }
        Ok(figures)
    }

    /// Latency with more and more other peers connected, then with some of them active.
    fn idle(&mut self, trial: &Trial) -> Outcome<Vec<Figure>> {
        let pair = self.pair(trial)?;
        let address = pair.open(&trial.method)?;
        let mut figures = Vec::new();
        let mut holders: Pool<Report> = Pool::default();
        let mut connected = 0;
        for wanted in IDLE_PEERS {
            let mut known = 0;
            while connected < wanted {
                let count = HELD.min(wanted - connected);
                let role = Role::Holder {
                    address: address.clone(),
                    count,
                };
                start(&mut holders, &[], role)?;
                connected += count;
                known += count;
            }
            pair.measure(&worker::Order::Meet { count: known })?;
            // Drain the holders' last events before the next measurement.
            while let Some((_, event)) = holders.event(Duration::from_millis(50)) {
                if let Event::Ended(why) = event {
                    return Err(gone(why));
                }
            }
            // The first time warms up.
            pair.latency(&trial.method, 8)?;
            let latency = pair.latency(&trial.method, 8)?;
            let case = format!("idle/{}/{wanted}-peers", trial.method);
            figures.extend(Figure::latency(case, 8, latency));
        }
        drop(holders);
        let latency = active(pair, trial)?;
        let case = format!("idle/{}/{ACTIVE_PEERS}-active", trial.method);
        figures.extend(Figure::latency(case, 8, latency));
        Ok(figures)
    }
}

/// Latency while other peers send, each a message every millisecond.
fn active(pair: &mut Pair, trial: &Trial) -> Outcome<f64> {
    let address = pair.open(&trial.method)?;
    let mut holders: Pool<Report> = Pool::default();
    let role = Role::Holder {
        address,
        count: ACTIVE_PEERS,
    };
    start(&mut holders, &[], role)?;
    pair.measure(&worker::Order::Meet {
        count: ACTIVE_PEERS,
    })?;
    holders.gather(PATIENCE, "connecting others")?;
    let milliseconds = trial.milliseconds();
    holders.send(0, &Order::BeActive { milliseconds })?;
    let rounds = trial.effort.echoes(&trial.method, 8);
    let order = worker::Order::LatencyBesidePeers { rounds };
    let latency = pair.one_way(&order, rounds)?;
    // Messages on their way are received until the other peers are done.
    while holders.event(Duration::ZERO).is_none() {
        pair.measure(&worker::Order::LatencyBesidePeers { rounds: 100 })?;
    }
    Ok(latency)
}

fn start(pool: &mut Pool<Report>, processors: &[usize], role: Role) -> Outcome<usize> {
    pool.start(&Task::MultiProcess(Assignment {
        processors: processors.to_vec(),
        role,
    }))
}

/// The address at which the process that was started last listens.
fn listening(pool: &mut Pool<Report>) -> Outcome<String> {
    match pool.event(PATIENCE) {
        Some((_, Event::Message(Report::Listening(address)))) => Ok(address),
        Some((_, Event::Ended(why))) => Err(gone(why)),
        other => Err(Failure::new(
            "starting a process",
            format!("the process reported {other:?} instead of its address"),
        )),
    }
}

fn gone(why: Option<String>) -> Failure {
    let why = why.unwrap_or("the process has ended early".to_owned());
    Failure::new("running a process", why)
}
