//! Tables 3.1 and 3.2: MU-Net's messages, printed values beside simulated ones.

use super::table::Cell;
use super::{FigureError, Traced, microseconds};
use crate::substrates::munet::{self, MuNet};
use crate::substrates::timeline;

/// Columns of Table 3.2: bytes, and active endpoints.
pub const COLUMNS: [(u32, usize); 6] = [(8, 1), (8, 2), (8, 4), (8, 8), (1_024, 1), (4_096, 1)];

/// Table 3.2 as printed, in µs.
const ANATOMY: [[f64; 6]; 6] = [
    [6.5, 7.0, 7.5, 9.0, 6.5, 13.0],
    [7.0, 7.5, 8.0, 9.5, 12.5, 45.0],
    [8.0, 8.0, 9.0, 10.0, 23.5, 73.0],
    [9.5, 10.0, 11.5, 14.0, 47.0, 152.0],
    [18.0, 18.5, 19.0, 23.5, 70.5, 219.5],
    [19.5, 20.5, 22.5, 23.5, 81.0, 247.0],
];

/// How far a simulated entry of Table 3.2 may be from the printed one, unless it is within 2 µs.
pub const ANATOMY_TOLERANCE: f64 = 0.2;

/// Table 3.1's row for MU-Net: bytes and µs.
const ROUND_TRIPS: [(u32, f64); 8] = [
    (8, 40.0),
    (64, 50.0),
    (128, 57.0),
    (256, 71.0),
    (512, 104.0),
    (1_024, 162.0),
    (2_048, 272.0),
    (4_096, 495.0),
];

/// Table 3.1, of which the simulator has MU-Net's row: `munet/roundtrip/0`.
pub fn table_3_1() -> Result<Vec<Cell>, FigureError> {
    let settings = MuNet::shipped()?;
    let cell = |(bytes, printed)| -> Result<Cell, FigureError> {
        let time = munet::round_trip(settings, bytes as usize)?;
        Ok(Cell {
            case: "munet/roundtrip/0".into(),
            size_bytes: bytes,
            paper: Some(printed),
            causeway: microseconds(time),
        })
    };
    ROUND_TRIPS.into_iter().map(cell).collect()
}

/// Table 3.2, column by column: `munet/endpoints-1/0` … `munet/endpoints-8/5`.
pub fn table_3_2() -> Result<Vec<Cell>, FigureError> {
    let settings = MuNet::shipped()?;
    let mut cells = Vec::new();
    for (column, (bytes, endpoints)) in COLUMNS.into_iter().enumerate() {
        let times = munet::anatomy(settings, bytes as usize, endpoints)?;
        for (row, (time, printed)) in times.into_iter().zip(&ANATOMY).enumerate() {
            cells.push(Cell {
                case: format!("munet/endpoints-{endpoints}/{row}"),
                size_bytes: bytes,
                paper: Some(printed[column]),
                causeway: microseconds(time),
            });
        }
    }
    Ok(cells)
}

/// Rounds of a timeline.
const SHOWN: u32 = 8;

/// The run of Table 3.1's first column, for a timeline.
pub fn trace_3_1() -> Result<Traced, FigureError> {
    traced(ROUND_TRIPS[0].0, 1)
}

/// The run of Table 3.2's last column, for a timeline.
pub fn trace_3_2() -> Result<Traced, FigureError> {
    let (bytes, endpoints) = COLUMNS[5];
    traced(bytes, endpoints)
}

fn traced(bytes: u32, endpoints: usize) -> Result<Traced, FigureError> {
    let ways = munet::ways(MuNet::shipped()?, bytes as usize, endpoints, SHOWN)?;
    Ok(Traced {
        of: format!("{bytes} B, active endpoints: {endpoints}"),
        record: timeline::record(&ways, 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_3_2_is_met() {
        let cells = table_3_2().expect("it runs");
        assert_eq!(cells.len(), 36);
        for cell in cells {
            assert!(cell.agrees_within(ANATOMY_TOLERANCE, 2.0), "{cell:?}");
        }
    }

    #[test]
    fn table_3_1_is_what_its_breakdown_implies() {
        for cell in table_3_1().expect("it runs") {
            assert!(cell.agrees_within(0.1, 2.0), "{cell:?}");
        }
    }
}
