//! Tables 5.1 and 5.2: printed values beside simulated ones.

use causeway_firmware::Settings;

use super::common::{FigureError, Traced};
use crate::engine::{Time, duration_at, microseconds};
use crate::profile::Profile;
use crate::workloads::design::Design;
use crate::workloads::ping::Data;
use crate::workloads::{Keep, ping};

/// The programs of chapter 5, in the tables' order.
pub const PROGRAMS: [Design; 3] = [Design::Svia, Design::Pvia, Design::QosVia];
/// Message sizes, in the tables' order.
pub const SIZES: [u32; 4] = [4, 1_024, 4_096, 16_384];

/// One entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Program, side and row: `svia/send/0`.
    pub case: String,
    /// Bytes of the message.
    pub size_bytes: u32,
    /// The printed value, in the table's unit; nothing where the table has a gap.
    pub paper: Option<f64>,
    /// The simulated value.
    pub causeway: f64,
    /// The values of the runs whose mean it is, or that of the one message that was observed; empty if the workload has taken the mean.
    pub values: Vec<f64>,
}

impl Cell {
    /// Whether the two agree within a tenth or 2 µs.
    pub fn agrees(&self) -> bool {
        self.agrees_within(0.1, 2.0)
    }

    /// Whether the two agree within `part` of the printed value, or within `slack`.
    pub fn agrees_within(&self, part: f64, slack: f64) -> bool {
        self.paper.is_none_or(|paper| {
            let apart = (self.causeway - paper).abs();
            apart <= slack || apart <= paper * part
        })
    }
}

/// Rows of the send side of Table 5.1.
pub const SEND_ROWS: [&str; 7] = [
    "HDMA Prog. (Desc.)",
    "Desc. Down",
    "HDMA Prog. (Data)",
    "Data Down",
    "NSDMA Done",
    "HDMA Prog. (Status)",
    "Status Done",
];
/// Rows of its receive side.
pub const RECEIVE_ROWS: [&str; 6] = [
    "HDMA Prog. (Desc.)",
    "Desc Down",
    "HDMA Prog. (Data)",
    "Data Up",
    "HDMA Prog. (Status)",
    "Status Done",
];

/// Table 5.1 as printed: for each program and row, the four sizes.
const SEND: [[[u16; 4]; 7]; 3] = [
    [
        [3, 3, 3, 3],
        [6, 6, 6, 6],
        [9, 9, 9, 11],
        [11, 18, 43, 141],
        [12, 25, 69, 244],
        [13, 27, 71, 245],
        [14, 28, 72, 247],
    ],
    [
        [7, 7, 7, 7],
        [11, 10, 11, 10],
        [19, 19, 23, 34],
        [23, 28, 52, 148],
        [28, 39, 82, 254],
        [33, 45, 87, 260],
        [38, 49, 92, 264],
    ],
    [
        [9, 9, 9, 9],
        [13, 13, 13, 13],
        [24, 24, 30, 49],
        [27, 33, 57, 152],
        [32, 43, 86, 261],
        [37, 49, 91, 266],
        [41, 53, 95, 270],
    ],
];
const RECEIVE: [[[u16; 4]; 6]; 3] = [
    [
        [3, 3, 3, 3],
        [5, 5, 5, 5],
        [8, 8, 9, 11],
        [10, 17, 42, 138],
        [11, 18, 43, 140],
        [12, 20, 44, 141],
    ],
    [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [10, 10, 14, 24],
        [14, 19, 42, 138],
        [19, 24, 47, 143],
        [23, 28, 51, 146],
    ],
    [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [12, 12, 17, 35],
        [15, 21, 44, 139],
        [20, 25, 48, 143],
        [24, 29, 52, 147],
    ],
];
const ONE_WAY: [[u16; 4]; 3] = [[30, 53, 121, 385], [69, 90, 153, 423], [73, 90, 157, 426]];

/// Table 5.2 as printed. Our copy of the thesis lacks one entry of the last row.
const BULK: [[Option<u16>; 4]; 3] = [
    [Some(8), Some(14), Some(48), Some(152)],
    [Some(26), Some(28), Some(36), Some(86)],
    [Some(32), Some(34), Some(46), None],
];

/// Round trips that are averaged.
const ROUNDS: u32 = 16;

fn program_name(program: Design) -> String {
    program.name().to_lowercase()
}

/// Table 5.1 on the profile that is calibrated for it: program by program, size by size.
pub fn table_5_1() -> Result<Vec<Cell>, FigureError> {
    table_5_1_on(&Profile::shipped("qos")?)
}

/// What Tables 5.1 and 5.2 assume besides the profile. Both were fitted to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// Where a message's data begin in a page.
    pub data_offset: u32,
    /// How many messages of best effort QoSVIA has under way at a time.
    pub in_progress: u32,
}

impl Default for Assumed {
    fn default() -> Self {
        Self {
            data_offset: ping::DATA_OFFSET,
            in_progress: Design::QosVia.settings().best_effort.in_progress,
        }
    }
}

impl Assumed {
    fn data(self, bytes: u32) -> Data {
        Data {
            bytes,
            offset: self.data_offset,
        }
    }

    /// The settings of a program with work queues of this depth.
    fn settings(self, program: Design, depth: u32) -> Settings {
        let mut settings = program.roomy(depth);
        if program == Design::QosVia {
            settings.best_effort.in_progress = self.in_progress;
        }
        settings
    }
}

/// Table 5.1 on other hardware.
pub fn table_5_1_on(profile: &Profile) -> Result<Vec<Cell>, FigureError> {
    table_5_1_with(profile, Assumed::default())
}

/// Table 5.1 on other hardware, and with other assumptions.
pub fn table_5_1_with(profile: &Profile, assumed: Assumed) -> Result<Vec<Cell>, FigureError> {
    let mut cells = Vec::new();
    for place in 0..PROGRAMS.len() {
        for column in 0..SIZES.len() {
            cells.extend(breakdown(profile, assumed, place, column)?);
        }
    }
    Ok(cells)
}

fn breakdown(
    profile: &Profile,
    assumed: Assumed,
    place: usize,
    column: usize,
) -> Result<Vec<Cell>, FigureError> {
    let (program, bytes) = (PROGRAMS[place], SIZES[column]);
    let settings = assumed.settings(program, 4);
    let data = assumed.data(bytes);
    let (found, _) = ping::ping_pong_recorded(profile, settings, data, ROUNDS, Keep::Sums)?;
    let cell = |side: &str, row: usize, paper: u16, causeway| Cell {
        case: format!("{}/{side}/{row}", program_name(program)),
        size_bytes: bytes,
        paper: Some(f64::from(paper)),
        causeway: microseconds(causeway),
        values: match side {
            "oneway" => Vec::new(),
            _ => vec![microseconds(causeway)],
        },
    };
    let mut cells = Vec::new();
    for (row, (time, printed)) in found.send.iter().zip(&SEND[place]).enumerate() {
        cells.push(cell("send", row, printed[column], *time));
    }
    for (row, (time, printed)) in found.receive.iter().zip(&RECEIVE[place]).enumerate() {
        cells.push(cell("recv", row, printed[column], *time));
    }
    cells.push(cell("oneway", 0, ONE_WAY[place][column], found.one_way));
    Ok(cells)
}

/// Windows that are tried for Table 5.2, which prints the best. The thesis found large ones to have
/// problems with flow control, but does not state where they begin.
const WINDOWS: [u32; 4] = [1, 2, 4, 8];
/// Windows that are averaged.
const BULK_ROUNDS: u32 = 12;

/// Table 5.2 on the same profile.
pub fn table_5_2() -> Result<Vec<Cell>, FigureError> {
    table_5_2_on(&Profile::shipped("qos")?)
}

/// A run of Table 5.1, for a timeline: the program that does the most, with a message of several pages.
pub fn trace_5_1() -> Result<Traced, FigureError> {
    let profile = Profile::shipped("qos")?;
    let (program, bytes) = (PROGRAMS[2], SIZES[3]);
    let settings = program.roomy(4);
    let (_, record) = ping::ping_pong_recorded(&profile, settings, bytes, ROUNDS, Keep::Slices)?;
    Ok(Traced {
        of: format!("{}, {bytes} B", program.name()),
        record,
    })
}

/// A run of Table 5.2, for a timeline.
pub fn trace_5_2() -> Result<Traced, FigureError> {
    let profile = Profile::shipped("qos")?;
    let (program, bytes, window) = (PROGRAMS[2], SIZES[3], WINDOWS[2]);
    let settings = program.roomy(2 * window);
    let keep = Keep::Slices;
    let (_, record) =
        ping::ping_bulk_recorded(&profile, settings, bytes, window, BULK_ROUNDS, keep)?;
    Ok(Traced {
        of: format!("{}, {bytes} B, windows of {window}", program.name()),
        record,
    })
}

/// Table 5.2 on other hardware.
pub fn table_5_2_on(profile: &Profile) -> Result<Vec<Cell>, FigureError> {
    table_5_2_with(profile, Assumed::default())
}

/// Table 5.2 on other hardware, and with other assumptions.
pub fn table_5_2_with(profile: &Profile, assumed: Assumed) -> Result<Vec<Cell>, FigureError> {
    let mut cells = Vec::new();
    for (program, printed) in PROGRAMS.into_iter().zip(BULK) {
        for (bytes, printed) in SIZES.into_iter().zip(printed) {
            let mut best = None;
            for window in WINDOWS {
                let settings = assumed.settings(program, 2 * window);
                let data = assumed.data(bytes);
                let keep = Keep::Sums;
                let (time, _) =
                    ping::ping_bulk_recorded(profile, settings, data, window, BULK_ROUNDS, keep)?;
                best = Some(best.map_or(time, |best| time.min(best)));
            }
            cells.push(Cell {
                case: format!("{}/bulk/0", program_name(program)),
                size_bytes: bytes,
                paper: printed.map(f64::from),
                causeway: best.map_or(f64::NAN, microseconds),
                values: Vec::new(),
            });
        }
    }
    for bytes in SIZES {
        cells.extend(overlapped(profile, assumed, bytes)?);
    }
    Ok(cells)
}

/// The sum of SVIA's stages if its program does not wait for everything that Fig. 4.3 has it wait
/// for: not for the network send engine, and neither for that nor for descriptors.
fn overlapped(profile: &Profile, assumed: Assumed, bytes: u32) -> Result<[Cell; 2], FigureError> {
    let settings = assumed.settings(Design::Svia, 4);
    let data = assumed.data(bytes);
    let (found, _) = ping::ping_pong_recorded(profile, settings, data, ROUNDS, Keep::Sums)?;
    let [_, descriptor, .., send] = found.send;
    let [_, wanted, .., receive] = found.receive;
    let on_wire = duration_at(u64::from(bytes), profile.link.bytes_per_second);
    // A node that sends a message for each one that it receives spends half of both on each.
    let without_wait = (send + receive).saturating_sub(on_wire);
    let without_both = without_wait.saturating_sub(descriptor + wanted);
    let cell = |case: &str, time: Time| Cell {
        case: format!("svia/{case}/0"),
        size_bytes: bytes,
        paper: None,
        causeway: microseconds(time / 2),
        values: Vec::new(),
    };
    Ok([
        cell("bulk-without-net-wait", without_wait),
        cell("bulk-without-net-wait-and-descriptors", without_both),
    ])
}

/// Cells of a table without printed values, which show what the others depend on: a line for each
/// case.
pub fn alternatives(cells: &[Cell]) -> Vec<String> {
    let assumed = |cell: &&Cell| cell.case.contains("-without-");
    let mut cases: Vec<&str> = cells
        .iter()
        .filter(assumed)
        .map(|cell| &*cell.case)
        .collect();
    cases.sort_unstable();
    cases.dedup();
    let told = |case: &str| {
        let values: Vec<String> = cells
            .iter()
            .filter(|cell| cell.case == case)
            .map(|cell| format!("{:.1}", cell.causeway))
            .collect();
        format!("{case} would be {} µs", values.join(", "))
    };
    cases.into_iter().map(told).collect()
}
