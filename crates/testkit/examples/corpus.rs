//! Writes the well-formed inputs of every decoder below a directory, as seeds for `make fuzz`, and prints the decoders'
//! names.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use causeway_testkit::decoders::all;

fn main() -> std::io::Result<()> {
    let corpus = std::env::args().nth(1).unwrap_or("fuzz/corpus".into());
    for decoder in all() {
        println!("{}", decoder.name);
        let folder = PathBuf::from(&corpus).join(decoder.name);
        std::fs::create_dir_all(&folder)?;
        for (number, sample) in (decoder.samples)().iter().enumerate() {
            std::fs::write(folder.join(format!("sample-{number}")), sample)?;
        }
    }
    Ok(())
}
