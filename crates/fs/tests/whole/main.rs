//! Whole file systems of real server processes.

mod acls;
mod agent;
mod altered;
mod appending;
mod at_once;
mod atomic;
mod boots;
mod capabilities;
mod capability_ends;
mod cluster;
mod faults;
mod formats;
mod growing;
mod holes;
mod identity;
mod integrity;
mod kills;
mod leases;
mod liar;
mod locks;
mod long_reads;
mod lying_clients;
mod open_files;
// Shared with the metadata service's own test, which uses all of it.
#[path = "../posix_model/mod.rs"]
#[allow(dead_code)]
mod posix_model;
mod repeated;
mod restored;
mod shared;
mod trust;
mod unlinked;

/// Not a test of its own: the servers of the other tests are this program, run with this test and two
/// more arguments. Without them it checks a server's error for a missing configuration.
#[test]
fn server_process() {
    if std::env::var_os("CAUSEWAY_TEST_SERVER").is_none() {
        let missing = std::path::Path::new("/nonexistent/causeway.toml");
        let error = causeway_fs::server::serve(missing, "io0", |_| Ok(())).unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/causeway.toml"),
            "{error}"
        );
        return;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let [.., configuration, server] = &arguments[..] else {
        panic!("the configuration and the server's name must come last");
    };
    if let Err(error) = causeway_fs::server::serve(configuration.as_ref(), server, |_| Ok(())) {
        eprintln!("{error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}
