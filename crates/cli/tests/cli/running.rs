//! Programs that run while the files about nodes change. They are programs with the client library, whose users send them no signal.

use std::path::Path;

use causeway_fs::Error;
use causeway_fs::client::{Client, ClientOptions, File};
use causeway_fs::config::Configuration;

use crate::nodes::Cluster;
use crate::stand::until;

/// A file that lies on both I/O servers.
const BYTES: usize = 3 << 20;

struct Program {
    client: Client,
    file: File,
}

impl Program {
    fn start(config: &Path, via: &str) -> Self {
        let configuration = Configuration::load(config).unwrap();
        let options = ClientOptions {
            only_scheme: Some(via.to_owned()),
            ..ClientOptions::default()
        };
        let mut client = Client::connect(&configuration, options).unwrap();
        let file = client.open(b"/file".as_slice()).unwrap();
        Self { client, file }
    }

    fn read(&mut self) -> Result<(), Error> {
        let mut content = vec![0; BYTES];
        let count = self.client.read_at(&mut self.file, 0, &mut content)?;
        assert!(count == BYTES && content.iter().all(|byte| *byte == 7));
        Ok(())
    }
}

fn cluster() -> Cluster {
    let cluster = Cluster::running();
    std::fs::write(cluster.path("file"), vec![7; BYTES]).unwrap();
    cluster.fs("laptop.toml", &["put", "file", "/file"]).ok();
    cluster
}

/// The servers end the connections of the former certificate; those that the program makes then are made with the new one.
#[test]
fn a_program_goes_on_with_its_nodes_new_certificate() {
    let cluster = cluster();
    for via in ["shm", "tcp"] {
        let mut program = Program::start(&cluster.path("laptop.toml"), via);
        program.read().unwrap();
        let renewed = "renewed.node";
        let renew = ["add", "laptop", "--renew", "--output", renewed];
        cluster.node(&renew).ok();
        std::fs::rename(cluster.path(renewed), cluster.path("laptop.node")).unwrap();
        cluster.node(&["revoke", "laptop", "--former"]).ok();
        cluster.reload();
        program.read().unwrap();
    }
}

/// Neither a server nor the program gets a signal; the program has connections with all servers.
#[test]
fn a_program_that_makes_calls_believes_a_revoked_server_no_more() {
    let cluster = cluster();
    let config = cluster.path("laptop.toml");
    let mut programs = ["shm", "tcp"].map(|via| Program::start(&config, via));
    for program in &mut programs {
        program.read().unwrap();
    }
    cluster.node(&["revoke", "a"]).ok();
    for program in &mut programs {
        until("the revoked server is not believed", || {
            let failed = program.read().err();
            failed.is_some_and(|error| error.to_string().contains("revoked"))
        });
    }
    // It goes on with all others, and with this one once that has a certificate which counts.
    for program in &mut programs {
        program.client.stat(b"/file".as_slice(), false).unwrap();
    }
    let again = ["add", "a", "--role", "io0", "--output", "again.node"];
    cluster.node(&again).ok();
    std::fs::rename(cluster.path("again.node"), cluster.path("a.node")).unwrap();
    cluster.reload();
    for program in &mut programs {
        program.read().unwrap();
    }
}
