#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| causeway_testkit::decoders::feed("run_event", bytes));
