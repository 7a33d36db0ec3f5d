//! Tables 3.1 and 3.2: MU-Net's messages, printed values beside simulated ones.

use super::common::{FigureError, Traced};
use super::table::Cell;
use crate::engine::microseconds;
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
            values: Vec::new(),
        })
    };
    ROUND_TRIPS.into_iter().map(cell).collect()
}

/// Table 3.2, column by column: `munet/endpoints-1/0` … `munet/endpoints-8/5`.
pub fn table_3_2() -> Result<Vec<Cell>, FigureError> {
    table_3_2_on(MuNet::shipped()?)
}

fn table_3_2_on(settings: MuNet) -> Result<Vec<Cell>, FigureError> {
    let mut cells = Vec::new();
    for (column, (bytes, endpoints)) in COLUMNS.into_iter().enumerate() {
        let times = munet::anatomy(settings, bytes as usize, endpoints)?;
        for (row, (time, printed)) in times.into_iter().zip(&ANATOMY).enumerate() {
            cells.push(Cell {
                case: format!("munet/endpoints-{endpoints}/{row}"),
                size_bytes: bytes,
                paper: Some(printed[column]),
                causeway: microseconds(time),
                values: Vec::new(),
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
    use crate::profile::edit;

    /// The card has 1,024 B after 6 µs and 4,096 B after 32 µs: faster than the S-Bus moves them.
    #[test]
    fn table_3_2_is_met_but_for_what_the_bus_forbids() {
        let cells = table_3_2().expect("it runs");
        assert_eq!(cells.len(), 36);
        for cell in &cells {
            let is_from_host =
                ["munet/endpoints-1/1", "munet/endpoints-1/2"].contains(&cell.case.as_str());
            let is_forbidden = is_from_host && cell.size_bytes >= 1_024;
            assert_eq!(cell.agrees(), !is_forbidden, "{cell:?}");
        }
    }

    /// On a bus of 64 bit the rate that the table needs is possible, and all entries are met.
    #[test]
    fn table_3_2_is_met_on_a_wider_bus() {
        let text = include_str!("../../profiles/endpoints.toml");
        let with = |text: &str, key: &str, value: &str| {
            edit::with_value(text, key, value).expect("the key is there")
        };
        let faster = with(text, "dma.from_host", "170 MB/s");
        let refused = MuNet::read("faster", &faster).expect_err("the bus is slower");
        assert!(refused.to_string().contains("dma.bus"), "{refused}");
        let wider = with(&faster, "dma.bus", "200 MB/s");
        let wider = with(&wider, "dma.from_net", "52 MB/s");
        let settings = MuNet::read("wider", &wider).expect("it is right");
        for cell in table_3_2_on(settings).expect("it runs") {
            assert!(cell.agrees_within(0.2, 2.0), "{cell:?}");
        }
    }

    #[test]
    fn table_3_1_is_what_its_breakdown_implies() {
        for cell in table_3_1().expect("it runs") {
            assert!(cell.agrees_within(0.1, 2.0), "{cell:?}");
        }
    }
}
