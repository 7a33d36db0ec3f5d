//! `causeway fs chmod`.

use causeway_command::failure::Outcome;
use causeway_command::remote::is_missing;
use causeway_fs::client::Client;
use causeway_wire::fs::{Attributes, Kind, ObjectId, Place, SetAttributes};
use clap::Args;

use super::parse_octal;
use crate::fs::engine::{conclude_counted, each_operand};
use crate::fs::session::{RemotePath, Session, Target, remote_name};
use crate::fs::source::with_current;
use crate::fs::tree::{is_directory, walk};

/// Change permission bits
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs chmod 640 /data/a.bin
  causeway fs chmod u+x,go-w /bin/tool
  causeway fs chmod -R g+rX /shared")]
pub(crate) struct Arguments {
    /// Octal bits, or changes like u+x,go-w
    #[arg(value_name = "MODE", value_parser = parse_change, allow_hyphen_values = true)]
    change: Change,
    /// Files and directories
    #[arg(required = true, value_name = "PATH", value_parser = remote_name())]
    paths: Vec<RemotePath>,
    /// Change everything in directories too
    #[arg(long, short = 'R')]
    recursive: bool,
    #[command(flatten)]
    target: Target,
}

/// A change of permission bits.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Exactly(u16),
    Steps(Vec<Step>),
}

/// One comma-separated step, such as `go-w`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    /// Bits of the classes concerned: 0o700, 0o070, 0o007 and their special bits.
    classes: u16,
    sign: char,
    /// Bits named, for all classes.
    bits: u16,
    /// `X`: execute for directories and for files that have it in any class.
    execute_if_sensible: bool,
}

fn parse_change(text: &str) -> Result<Change, String> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return parse_octal(text).map(Change::Exactly);
    }
    let wrong = || format!("`{text}` is not a mode; write it like 755, u+x or go-w");
    let steps: Option<Vec<Step>> = text.split(',').map(parse_step).collect();
    steps.map(Change::Steps).ok_or_else(wrong)
}

fn parse_step(text: &str) -> Option<Step> {
    let sign_at = text.find(['+', '-', '='])?;
    let (named, rest) = text.split_at(sign_at);
    let mut classes = 0;
    for class in named.chars() {
        classes |= match class {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => 0o7777,
            _ => return None,
        };
    }
    if named.is_empty() {
        classes = 0o7777;
    }
    let mut letters = rest.chars();
    let sign = letters.next()?;
    let mut step = Step {
        classes,
        sign,
        bits: 0,
        execute_if_sensible: false,
    };
    for letter in letters {
        step.bits |= match letter {
            'r' => 0o444,
            'w' => 0o222,
            'x' => 0o111,
            's' => 0o6000,
            't' => 0o1000,
            'X' => {
                step.execute_if_sensible = true;
                0
            }
            _ => return None,
        };
    }
    Some(step)
}

impl Change {
    fn apply(&self, attributes: &Attributes) -> u16 {
        let steps = match self {
            Self::Exactly(mode) => return *mode,
            Self::Steps(steps) => steps,
        };
        let mut mode = attributes.mode;
        for step in steps {
            let mut bits = step.bits;
            if step.execute_if_sensible && (attributes.kind == Kind::Directory || mode & 0o111 != 0)
            {
                bits |= 0o111;
            }
            let bits = bits & step.classes;
            mode = match step.sign {
                '+' => mode | bits,
                '-' => mode & !bits,
                _ => mode & !(step.classes & 0o777) | bits,
            };
        }
        mode
    }
}

/// A mode to set.
struct Wanted {
    object: ObjectId,
    mode: u16,
    /// The name that has led to the object.
    place: Place,
    follow: bool,
    path: Vec<u8>,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let (mut changed, mut failures) = (0, 0);
    for given in &arguments.paths {
        let mut wanted: Vec<Wanted> = Vec::new();
        failures += each_operand([given], |given| {
            find(&mut client, given, &arguments, &mut wanted)
        });
        failures += each_operand(wanted, |wanted| {
            changed += u64::from(wanted.set(&mut client, &arguments.change)?);
            Ok(())
        });
    }
    conclude_counted(&session, "changed", changed, failures)
}

/// Finds the modes to set for a path given on the command line.
fn find(
    client: &mut Client,
    given: &RemotePath,
    arguments: &Arguments,
    wanted: &mut Vec<Wanted>,
) -> Outcome {
    let path = given.trimmed();
    let node = client.stat(&given.0, true)?;
    if !arguments.recursive || !is_directory(&node) {
        wanted.push(Wanted {
            object: node.object,
            mode: arguments.change.apply(&node.attributes),
            place: Place::from(&given.0),
            follow: true,
            path,
        });
        return Ok(());
    }
    walk(client, &path, &node, &mut |_, visited| {
        // A directory's own mode is changed after its entries', which a mode without search permission would make
        // unreachable.
        let entered = visited.attributes.kind == Kind::Directory && !visited.leaving;
        if !entered && visited.attributes.kind != Kind::SymbolicLink {
            wanted.push(Wanted {
                object: visited.object,
                mode: arguments.change.apply(&visited.attributes),
                place: visited.place(),
                follow: false,
                path: visited.path.to_vec(),
            });
        }
        Ok(())
    })
}

impl Wanted {
    /// Sets the mode; returns `false` if the object was met on a walk and has been removed since.
    fn set(&self, client: &mut Client, change: &Change) -> Outcome<bool> {
        let mut known = Some((self.object, self.mode));
        with_current(&self.path, || {
            let (object, mode) = match known.take() {
                Some(known) => known,
                // The object that has the name now keeps its mode.
                None => {
                    let node = match client.stat(self.place.clone(), self.follow) {
                        Err(error) if is_missing(&error) && !self.follow => return Ok(false),
                        node => node?,
                    };
                    (node.object, change.apply(&node.attributes))
                }
            };
            let set = SetAttributes {
                mode: Some(mode),
                ..SetAttributes::default()
            };
            client.set_attributes(object, set).map(|_| true)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_wire::fs::Timestamp;

    fn applied(change: &str, kind: Kind, mode: u16) -> u16 {
        let time = Timestamp::default();
        let attributes = Attributes {
            kind,
            mode,
            uid: 0,
            gid: 0,
            links: 1,
            size: 0,
            accessed: time,
            modified: time,
            changed: time,
        };
        parse_change(change).unwrap().apply(&attributes)
    }

    #[test]
    fn changes_are_those_of_chmod() {
        assert_eq!(applied("640", Kind::File, 0o777), 0o640);
        assert_eq!(applied("u+x", Kind::File, 0o644), 0o744);
        assert_eq!(applied("go-w,u+x", Kind::File, 0o666), 0o744);
        assert_eq!(applied("a=r", Kind::File, 0o777), 0o444);
        assert_eq!(applied("g+rX", Kind::File, 0o600), 0o640);
        assert_eq!(applied("g+rX", Kind::Directory, 0o700), 0o750);
        assert_eq!(applied("+X", Kind::File, 0o744), 0o755);
        assert_eq!(applied("u+s", Kind::File, 0o755), 0o4755);
        assert_eq!(applied("-w", Kind::File, 0o666), 0o444);
        for wrong in ["8", "u", "z+r", "u+q", "", "77777"] {
            assert!(parse_change(wrong).is_err(), "{wrong}");
        }
    }
}
