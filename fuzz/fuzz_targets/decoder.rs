//! Feeds libFuzzer's inputs to the decoder that the environment variable `DECODER` names. All decoders share one program,
//! as building takes long.
#![no_main]

use std::sync::LazyLock;

use causeway_testkit::decoders::{Decoder, all};

static DECODER: LazyLock<&Decoder> = LazyLock::new(|| {
    let name = std::env::var("DECODER").expect("the name of a decoder in DECODER");
    let found = all().iter().find(|decoder| decoder.name == name);
    found.unwrap_or_else(|| panic!("DECODER={name}: there is no such decoder"))
});

libfuzzer_sys::fuzz_target!(init: { LazyLock::force(&DECODER); }, |bytes: &[u8]| (DECODER.feed)(bytes));
