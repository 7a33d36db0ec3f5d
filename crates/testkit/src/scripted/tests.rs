//! Clients of this build and servers of others.

use std::sync::atomic::{AtomicUsize, Ordering};

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Configuration;

use super::*;

fn formats(lowest: u8, highest: u8) -> Formats {
    Formats { lowest, highest }
}

fn connect(server: &ScriptedServer) -> Result<Client, causeway_fs::Error> {
    let configuration = Configuration::load(server.config()).unwrap();
    Client::connect(&configuration, ClientOptions::default())
}

/// Looks a file up, reads and writes it.
fn work(client: &mut Client) {
    let mut file = client.open(b"/f").unwrap();
    let mut bytes = vec![0; FILE_BYTES as usize];
    let read = client.read_at(&mut file, 0, &mut bytes).unwrap();
    assert_eq!(bytes[..read], vec![b'a'; FILE_BYTES as usize]);
    client.write_at(&mut file, 0, b"new").unwrap();
}

/// A server that speaks these formats, and counts the writes with and without a number.
fn counting(spoken: &Spoken) -> (tempfile::TempDir, ScriptedServer, [Arc<AtomicUsize>; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let seen = counts.clone();
    let script = move |operation: &Operation, _: &_| {
        if let Operation::Write { number, .. } = operation {
            seen[usize::from(*number == 0)].fetch_add(1, Ordering::SeqCst);
            return Response::Reply(transferred(3, FILE_BYTES, 0));
        }
        Response::Honest
    };
    let server = ScriptedServer::speaking(directory.path(), spoken.clone(), Box::new(script));
    (directory, server, counts)
}

#[test]
fn the_highest_common_format_is_used() {
    for (lowest, highest, numbered) in [
        (5, 5, false),
        (1, 5, false),
        (6, 6, true),
        (5, 6, true),
        (7, 7, true),
        (6, 11, true),
        (7, 12, true),
        (1, 255, true),
    ] {
        let spoken = Arc::new(Mutex::new(formats(lowest, highest)));
        let (_directory, server, counts) = counting(&spoken);
        work(&mut connect(&server).unwrap());
        let counts = counts.map(|count| count.load(Ordering::SeqCst));
        let expected = [usize::from(numbered), usize::from(!numbered)];
        assert_eq!(counts, expected, "{lowest} to {highest}");
    }
}

#[test]
fn without_a_common_format_the_error_names_both_sides() {
    let next = FORMATS.highest + 1;
    for (lowest, highest, named) in [
        // Of servers of one format, whose refusal states no range of formats.
        (4, 4, "format 4 ".to_owned()),
        (1, 1, "format 1 ".to_owned()),
        (next, next, format!("format {next}")),
        (next, next + 1, format!("formats {next} to {}", next + 1)),
    ] {
        let spoken = Arc::new(Mutex::new(formats(lowest, highest)));
        let (_directory, server, _) = counting(&spoken);
        let mut client = connect(&server).unwrap();
        let error = client.open(b"/f").unwrap_err();
        assert_eq!(error.errno, Errno::EPROTO);
        let text = error.to_string();
        for part in [named.as_str(), &FORMATS.to_string(), "run builds", NAME] {
            assert!(text.contains(part), "{lowest} to {highest}: {text}");
        }
    }
}

#[test]
fn a_request_that_the_servers_format_lacks_is_an_error_that_names_both_ranges() {
    for (lowest, highest, is_lacking) in [(5, 7, true), (5, 5, true), (5, 8, false)] {
        let spoken_there = Arc::new(Mutex::new(formats(lowest, highest)));
        let (_directory, server, _) = counting(&spoken_there);
        let mut client = connect(&server).unwrap();
        let mut file = client.open(b"/f").unwrap();
        let appended = client.append(&mut file, b"new");
        assert_eq!(appended.is_err(), is_lacking, "{appended:?}");
        if let Err(error) = appended {
            assert_eq!(error.errno, Errno::EOPNOTSUPP, "{error}");
            let text = error.to_string();
            let spoken = format!("none above {highest}");
            for part in ["format 8 ", &spoken, "upgrade the server", NAME] {
                assert!(text.contains(part), "{text}");
            }
            // An upgrade is found at the next try, even if the connection lives.
            *spoken_there.lock().unwrap() = formats(5, 8);
            let end = client.append(&mut file, b"new").unwrap();
            assert_eq!(end, FILE_BYTES + 3);
        }
    }
}

/// As when servers are upgraded, and when that is undone.
#[test]
fn a_server_may_be_replaced_by_another_build_while_clients_run() {
    let spoken = Arc::new(Mutex::new(formats(5, 5)));
    let (_directory, server, counts) = counting(&spoken);
    let mut client = connect(&server).unwrap();
    for (lowest, highest, expected) in [
        (5, 5, [0, 1]),
        (6, 8, [1, 1]),
        (4, 5, [1, 2]),
        (5, 6, [1, 3]),
        (6, 6, [2, 3]),
        (7, 7, [3, 3]),
    ] {
        *spoken.lock().unwrap() = formats(lowest, highest);
        work(&mut client);
        let counts = [&counts[0], &counts[1]].map(|count| count.load(Ordering::SeqCst));
        assert_eq!(counts, expected, "{lowest} to {highest}");
    }
}

#[test]
fn servers_that_reply_in_no_format_of_the_request_are_given_up() {
    let refusal = |format: u8| vec![format, 1, 71, 0, 0, 0, 0, 0];
    let done = |format: u8| vec![format, 0, 1];
    let unknown = FORMATS.highest + 1;
    for (reply, most) in [
        (refusal(6), 4),
        (refusal(5), 4),
        (refusal(7), 4),
        (refusal(8), 4),
        (refusal(unknown), 1),
        (refusal(0), 1),
        (refusal(200), 1),
        (done(5), 1),
        (done(unknown), 1),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let sent = reply.clone();
        let script = move |operation: &Operation, _: &_| match operation {
            Operation::Lookup { .. } => {
                count.fetch_add(1, Ordering::SeqCst);
                Response::Bytes(sent.clone())
            }
            _ => Response::Honest,
        };
        let server = ScriptedServer::start(directory.path(), Box::new(script));
        let error = connect(&server).unwrap().open(b"/f").unwrap_err();
        assert_eq!(error.errno, Errno::EPROTO, "{reply:?}: {error}");
        assert_eq!(asked.load(Ordering::SeqCst), most, "{reply:?}");
    }
}
