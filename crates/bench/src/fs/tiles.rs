//! Tiles of a two-dimensional array, as mpi-tile-io has them: each process owns a rectangle, whose
//! rows are small fragments of the file. A list in one request against a request for each fragment.

use causeway_command::failure::Outcome;
use causeway_fs::client::CreateOptions;

use super::processes::ClientProcesses;
use super::setup::{Bench, Setup};
use super::worker::{Order, Tile};

/// Bytes of an element.
const ELEMENT: u64 = 32;
/// Rows of a tile.
const ROWS: u64 = 1024;
/// Processes, in two rows of tiles: as many as there are tiles.
const CLIENTS: usize = 4;
const FILE: &str = "/tiles";

/// Measures lists against requests for each fragment.
pub(super) fn run(bench: &mut Bench) -> Outcome {
    bench.benchmark.note(format!(
        "tiles: {CLIENTS} processes own one tile each of a 2 by 2 array of tiles, {ROWS} rows of \
         elements of {ELEMENT} bytes; `list` is one call, `each` a call for every fragment"
    ));
    let mut setup = bench.start()?;
    let mut processes = ClientProcesses::start(&setup.cluster, CLIENTS)?;
    for width in bench.tile_widths.clone() {
        one_width(bench, &mut setup, &mut processes, width)?;
    }
    Ok(())
}

fn one_width(
    bench: &mut Bench,
    setup: &mut Setup,
    processes: &mut ClientProcesses,
    elements: u64,
) -> Outcome {
    let width = elements * ELEMENT;
    let tile = |number: usize, list: bool| Tile {
        path: FILE.to_owned(),
        origin: number as u64 % 2 * width + number as u64 / 2 * ROWS * 2 * width,
        width,
        rows: ROWS,
        pitch: 2 * width,
        list,
    };
    let bytes = width * ROWS * CLIENTS as u64;
    // Each worker reports the nanoseconds that it needed, without making and comparing the content.
    let megabytes = |total_ns: u64| {
        let mean = total_ns as f64 / CLIENTS as f64 / 1e9;
        bytes as f64 / 1e6 / mean.max(1e-9)
    };
    let mut values: [Vec<f64>; 4] = Default::default();
    for _ in 0..bench.runs {
        for (list, values) in [true, false].into_iter().zip(values.chunks_mut(2)) {
            // Not a small file: it is striped over the servers as any large array.
            setup
                .client
                .create(FILE.as_bytes(), &CreateOptions::default())?;
            let mut file = setup.client.open(FILE.as_bytes())?;
            setup.client.truncate(&mut file, bytes.max(8 << 20))?;
            let written = processes.measure(|number| Order::WriteTile(tile(number, list)))?;
            let read = processes.measure(|number| Order::ReadTile(tile(number, list)))?;
            setup.client.unlink(FILE.as_bytes())?;
            for (values, took) in values.iter_mut().zip([written, read]) {
                values.push(megabytes(took.operations));
            }
        }
    }
    let [list_write, list_read, each_write, each_read] = &values;
    for (what, list, each) in [
        ("write", list_write, each_write),
        ("read", list_read, each_read),
    ] {
        let case = format!("tiles/{what}");
        bench
            .benchmark
            .ours(&format!("{case}/list"), width, "bandwidth_mb_s", list);
        bench
            .benchmark
            .ours(&format!("{case}/each"), width, "bandwidth_mb_s", each);
        bench
            .benchmark
            .ratio(&format!("{case}/list-to-each"), width, list, each);
    }
    Ok(())
}
