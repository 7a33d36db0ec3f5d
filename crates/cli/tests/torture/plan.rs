//! What happens in a run, drawn from its seed before anything happens.

use causeway_testkit::random::Random;

/// Names that each client works with.
pub(crate) const SLOTS: usize = 5;
/// Largest content of a file, in bytes.
pub(crate) const MOST: usize = 200 << 10;
/// Clients of the library; one more uses the command.
pub(crate) const LIBRARY_CLIENTS: usize = 2;

/// Where a file lies: on I/O server 0, on I/O server 1, or striped over both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    On(u16),
    Both,
}

/// An operation of a client of the library. `slot`s are names in its directory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Makes the file, or gives it a new content if it exists.
    Fill {
        slot: usize,
        len: usize,
        spread: Spread,
    },
    Write {
        slot: usize,
        offset: usize,
        len: usize,
    },
    Truncate {
        slot: usize,
        size: usize,
    },
    Sync {
        slot: usize,
    },
    Read {
        slot: usize,
    },
    ReadPart {
        slot: usize,
        offset: usize,
        len: usize,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Link {
        from: usize,
        to: usize,
    },
    Unlink {
        slot: usize,
    },
    /// Writes this client's bytes between those of the others, in the file that all share.
    WriteShared {
        cell: usize,
    },
    ReadShared,
}

/// A verb of the command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    Put { slot: usize, len: usize },
    Cat { slot: usize },
    Get { slot: usize },
    Cp { from: usize, to: usize },
    Mv { from: usize, to: usize },
    Rm { slot: usize },
    PutTree { files: usize },
    RmTree,
    Ls,
    Fsck,
    Scrub,
}

/// What goes wrong while a phase lasts. Servers are counted as in the configuration; 0 keeps the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Killed, and started again at once: clients notice nothing.
    Restart {
        server: usize,
        after_us: u64,
    },
    /// Stopped by a signal for a moment: clients notice nothing.
    Pause {
        server: usize,
        after_us: u64,
    },
    /// Killed, and started again only when the phase is over.
    Down {
        server: usize,
        after_us: u64,
    },
    /// Stopped by a signal while the phase lasts.
    Halt {
        server: usize,
        after_us: u64,
    },
    /// The storage of an I/O server stalls for a while, in which impatient clients give up and go on. Then it goes
    /// on, or the server is killed and started again.
    Frozen {
        server: usize,
        after_us: u64,
        for_ms: u64,
        killed: bool,
    },
    /// All syncs of a server fail for a while: for want of room, or else because of its device. Then they succeed
    /// again, and the server is killed and started again.
    FailedSyncs {
        server: usize,
        after_us: u64,
        for_ms: u64,
        no_room: bool,
        killed: bool,
    },
    /// Started on something that is not its directory as it was.
    Wrong {
        server: usize,
        how: Damage,
    },
    /// The disk of I/O server 0 has no room.
    Full,
    /// A copy of the directory is kept for [`Damage::Older`].
    Keep {
        server: usize,
    },
    /// The copy of the metadata that [`Fault::Keep`] made is put back for good, and clients go on with it.
    Restored,
}

/// What a server finds instead of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// An empty directory: the disk is not mounted.
    Empty,
    /// `data` or `metadata` is gone from it.
    Gutted,
    /// The directory of another server.
    Foreign,
    /// The copy that [`Fault::Keep`] made.
    Older,
    /// Some bits are flipped.
    Flipped,
    /// A file is shorter than it was.
    Shortened,
    /// A file is gone.
    Deleted,
}

/// A stretch of operations with one fault; afterwards the fault is healed and everything is verified.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    pub(crate) fault: Fault,
    pub(crate) operations: [Vec<Op>; LIBRARY_CLIENTS],
    pub(crate) verbs: Vec<Verb>,
    /// Operations of each client on the file of registers.
    pub(crate) registers: usize,
}

/// A whole run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) synced: bool,
    pub(crate) small_disk: bool,
    /// Servers are reached over TCP instead of shared memory.
    pub(crate) tcp: bool,
    pub(crate) phases: Vec<Phase>,
}

/// One of several.
pub(crate) fn pick<T: Copy>(dice: &mut Random, from: &[T]) -> T {
    from[dice.below(from.len())]
}

impl Plan {
    /// The plan of a seed. With `only`, every fault is one that `only` accepts.
    pub(crate) fn new(seed: u64, only: Option<fn(&Fault) -> bool>) -> Self {
        let mut dice = Random::new(seed);
        let small_disk = dice.one_in(5);
        let synced = dice.one_in(2);
        let tcp = dice.one_in(4);
        let mut phases = vec![phase(&mut dice, Fault::None)];
        let kept = dice.below(3);
        phases.push(phase(&mut dice, Fault::Keep { server: kept }));
        for _ in 0..4 {
            let mut fault = fault(&mut dice, small_disk, kept);
            while only.is_some_and(|only| !only(&fault)) {
                fault = self::fault(&mut dice, small_disk, kept);
            }
            phases.push(phase(&mut dice, fault));
        }
        if kept == 0 && only.is_none() {
            phases.push(phase(&mut dice, Fault::Restored));
        }
        Self {
            synced,
            small_disk,
            tcp,
            phases,
        }
    }
}

fn fault(dice: &mut Random, small_disk: bool, kept: usize) -> Fault {
    let (server, after_us) = (dice.below(3), dice.below(20_000) as u64);
    match dice.below(16) {
        14 | 15 => Fault::FailedSyncs {
            server,
            after_us,
            for_ms: dice.below(300) as u64,
            no_room: dice.one_in(2),
            killed: dice.one_in(2),
        },
        12 | 13 => Fault::Frozen {
            server: 1 + server % 2,
            after_us,
            for_ms: 300 + dice.below(400) as u64,
            killed: dice.one_in(4),
        },
        0..3 => Fault::Restart { server, after_us },
        3 => Fault::Pause { server, after_us },
        4 => Fault::Down { server, after_us },
        5 => Fault::Halt { server, after_us },
        6 if small_disk => Fault::Full,
        7 if !small_disk || kept != 1 => Fault::Wrong {
            server: kept,
            how: Damage::Older,
        },
        // The small disk has no room for a second copy.
        _ => Fault::Wrong {
            server: if small_disk && server == 1 { 2 } else { server },
            how: damage(dice),
        },
    }
}

fn damage(dice: &mut Random) -> Damage {
    const KINDS: [Damage; 7] = [
        Damage::Empty,
        Damage::Gutted,
        Damage::Foreign,
        Damage::Flipped,
        Damage::Flipped,
        Damage::Shortened,
        Damage::Deleted,
    ];
    pick(dice, &KINDS)
}

fn phase(dice: &mut Random, fault: Fault) -> Phase {
    // Every request to a server that is away costs a time-out.
    let is_slow = matches!(
        fault,
        Fault::Down { .. } | Fault::Halt { .. } | Fault::Frozen { .. } | Fault::Wrong { .. }
    );
    let (count, verbs) = if is_slow { (5, 2) } else { (14, 4) };
    let registers = match fault {
        // What is written to a wrong directory is undone.
        Fault::Wrong { .. } | Fault::Restored => 0,
        // Some before storage stalls, some while it does, some afterwards.
        Fault::Frozen { .. } => 9,
        _ if is_slow => 4,
        _ => 8,
    };
    Phase {
        fault,
        operations: std::array::from_fn(|_| (0..count).map(|_| operation(dice)).collect()),
        verbs: (0..verbs).map(|_| verb(dice)).collect(),
        registers,
    }
}

fn len(dice: &mut Random) -> usize {
    match dice.below(3) {
        0 => dice.below(9_000),
        _ => dice.below(MOST),
    }
}

fn operation(dice: &mut Random) -> Op {
    let (slot, other) = (dice.below(SLOTS), dice.below(SLOTS));
    let offset = dice.below(MOST);
    match dice.below(20) {
        0..5 => Op::Fill {
            slot,
            len: len(dice),
            spread: pick(dice, &[Spread::On(0), Spread::On(1), Spread::Both]),
        },
        5..9 => Op::Write {
            slot,
            offset,
            len: 1 + len(dice).min(MOST - 1 - offset),
        },
        9 => Op::Truncate {
            slot,
            size: len(dice),
        },
        10..12 => Op::Sync { slot },
        12..14 => Op::Read { slot },
        14 => Op::ReadPart {
            slot,
            offset,
            len: len(dice),
        },
        15 => Op::Rename {
            from: slot,
            to: other,
        },
        16 => Op::Unlink { slot },
        17 => Op::Link {
            from: slot,
            to: other,
        },
        18 => Op::WriteShared {
            cell: dice.below(40),
        },
        _ => Op::ReadShared,
    }
}

fn verb(dice: &mut Random) -> Verb {
    let (slot, other) = (dice.below(SLOTS), dice.below(SLOTS));
    match dice.below(15) {
        0..4 => Verb::Put {
            slot,
            len: len(dice),
        },
        4 => Verb::Cat { slot },
        5 => Verb::Get { slot },
        6 => Verb::Cp {
            from: slot,
            to: other,
        },
        7 => Verb::Mv {
            from: slot,
            to: other,
        },
        8 => Verb::Rm { slot },
        9 | 10 => Verb::PutTree {
            files: 1 + dice.below(4),
        },
        11 => Verb::RmTree,
        12 => Verb::Ls,
        13 => Verb::Scrub,
        _ => Verb::Fsck,
    }
}
