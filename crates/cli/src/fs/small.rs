//! Storing many small files at once: the metadata server commits concurrent requests together with
//! one sync, while storing one file after another would wait for two or three syncs each.
//!
//! Each file is still stored as a whole or not at all: it is made with its content, under a
//! temporary name if its own exists, and then renamed.

use causeway_command::failure::Outcome;
use causeway_command::remote::{exists_already, is_gone};
use causeway_fs::Error;
use causeway_fs::client::{Client, CreateOptions};
use causeway_wire::fs::{DistributionHint, Errno, Node};

use crate::fs::partial::Partial;
use crate::fs::store::{Original, is_a_directory, missing_attributes};
use crate::fs::tree::RemoteName;

/// A small file to store.
pub(crate) struct SmallFile<'a> {
    /// Its name.
    pub(crate) to: RemoteName,
    /// Attributes of the copy.
    pub(crate) original: Original<'a>,
    /// At most [`causeway_wire::fs::MAX_STUFFED_BYTES`].
    pub(crate) content: Vec<u8>,
}

/// A file that was made with its content.
struct Made<'a> {
    /// Its index among the files.
    place: usize,
    file: &'a SmallFile<'a>,
    node: Node,
    /// Its temporary name, unless it was made under its own.
    partial: Option<Partial>,
}

/// Stores files, replacing existing entries with their names. Returns the result of each, in order.
pub(crate) fn store_many(
    client: &mut Client,
    files: &[SmallFile<'_>],
    distribution: Option<DistributionHint>,
) -> Vec<Outcome<Node>> {
    let mut results = Results::with_capacity(files.len());
    let made = make(client, files, distribution, &mut results);
    let made = set_attributes(client, made, &mut results);
    name(client, made, &mut results);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The results of files, by their indices.
type Results = Vec<(usize, Outcome<Node>)>;

fn options(file: &SmallFile<'_>, distribution: Option<DistributionHint>) -> CreateOptions {
    CreateOptions {
        exclusive: true,
        mode: file.original.first_mode(),
        distribution,
        content: file.content.clone(),
    }
}

/// Makes files under their own names, and under temporary ones if their own exist.
fn make<'a>(
    client: &mut Client,
    files: &'a [SmallFile<'a>],
    distribution: Option<DistributionHint>,
    results: &mut Results,
) -> Vec<Made<'a>> {
    let wanted: Vec<_> = files
        .iter()
        .map(|file| (file.to.place(), options(file, distribution)))
        .collect();
    let mut made = Vec::with_capacity(files.len());
    let mut taken = Vec::new();
    for (place, (created, file)) in client
        .create_many(&wanted)
        .into_iter()
        .zip(files)
        .enumerate()
    {
        match created {
            Ok(created) => made.push(Made {
                place,
                file,
                node: created.node,
                partial: None,
            }),
            Err(error) if exists_already(&error) => taken.push((place, file)),
            Err(error) => results.push((place, Err(file.to.failure(error)))),
        }
    }
    let beside: Vec<_> = taken
        .iter()
        .map(|(_, file)| (&file.to, options(file, distribution)))
        .collect();
    let created = Partial::create_many(client, &beside);
    for (created, (place, file)) in created.into_iter().zip(taken) {
        match created {
            Ok((partial, created)) => made.push(Made {
                place,
                file,
                node: created.node,
                partial: Some(partial),
            }),
            Err(failure) if failure.fatal => results.push((place, Err(failure))),
            Err(failure) => {
                let hint = "if the file may be written but not its directory, use --inplace";
                results.push((place, Err(failure.hint(hint))));
            }
        }
    }
    made
}

/// Sets the attributes that the copies lack. Returns the files for which that succeeded.
fn set_attributes<'a>(
    client: &mut Client,
    made: Vec<Made<'a>>,
    results: &mut Results,
) -> Vec<Made<'a>> {
    let (mut complete, mut incomplete, mut sets) = (Vec::new(), Vec::new(), Vec::new());
    for made in made {
        match missing_attributes(client, &made.file.original, &made.node) {
            Ok(None) => complete.push(made),
            Ok(Some(set)) => {
                sets.push((made.node.object, set));
                incomplete.push(made);
            }
            Err(error) => complete.extend(abandon(client, made, error, results)),
        }
    }
    let set = client.set_attributes_many(sets);
    for (made, set) in incomplete.into_iter().zip(set) {
        match set {
            Ok(_) => complete.push(made),
            Err(error) => complete.extend(abandon(client, made, error, results)),
        }
    }
    complete
}

/// Removes a file whose attributes could not be set, and notes the failure. A file that another client has replaced already needs
/// nothing more: that one is returned.
fn abandon<'a>(
    client: &mut Client,
    made: Made<'a>,
    error: Error,
    results: &mut Results,
) -> Option<Made<'a>> {
    if is_gone(&error) {
        return Some(made);
    }
    if let Some(partial) = &made.partial {
        partial.discard(client);
    }
    results.push((made.place, Err(made.file.to.failure(error))));
    None
}

/// Renames files with temporary names to their own.
fn name(client: &mut Client, made: Vec<Made<'_>>, results: &mut Results) {
    let (mut names, mut renamed) = (Vec::new(), Vec::new());
    for made in made {
        match made.partial {
            None => results.push((made.place, Ok(made.node))),
            Some(partial) => {
                names.push((partial.place(), made.file.to.place()));
                renamed.push((made.place, &made.file.to, made.node, partial));
            }
        }
    }
    let results_of = client.rename_many(names);
    for (result, (place, to, node, partial)) in results_of.into_iter().zip(renamed) {
        let named = match result {
            Ok(()) => {
                partial.forget();
                Ok(node)
            }
            Err(error) => {
                partial.discard(client);
                Err(match error.errno {
                    Errno::EISDIR => is_a_directory(to),
                    _ => to.failure(error),
                })
            }
        };
        results.push((place, named));
    }
}
