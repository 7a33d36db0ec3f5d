//! Which part of a change carries which operation out.

use causeway_wire::fs::{Errno, Operation, Reach, ReplyBody, Timestamp};

use crate::meta::change::Change;
use crate::meta::check;
use crate::meta::fault::{Outcome, fail};
use crate::meta::files::Written;
use crate::meta::names::NewFile;

/// Carries an operation out that changes something.
pub(super) fn dispatch(change: &mut Change<'_>, operation: &Operation) -> Outcome<ReplyBody> {
    match operation {
        Operation::Create {
            place,
            exclusive,
            mode,
            distribution,
            content,
        } => change.create(&NewFile {
            place,
            exclusive: *exclusive,
            mode: *mode,
            distribution: *distribution,
            content,
        }),
        Operation::MakeDirectory {
            place,
            mode,
            distribution,
        } => change.make_directory(place, *mode, *distribution),
        Operation::SymbolicLink { place, target } => change.symbolic_link(place, target),
        Operation::MakeSpecial {
            place,
            kind,
            mode,
            device,
        } => change.make_special(place, *kind, *mode, *device),
        Operation::HardLink { object, place } => change.hard_link(*object, place),
        Operation::Rename {
            from,
            to,
            no_replace,
        } => change.rename(from, to, *no_replace),
        Operation::Exchange { first, second } => change.exchange(first, second),
        Operation::Unlink { place, expected } => change.unlink(place, *expected),
        Operation::RemoveDirectory { place, expected } => change.remove_directory(place, *expected),
        Operation::SetAttributes { object, set } => change.set_attributes(*object, set),
        Operation::Truncate { object, size } => change.truncate(*object, *size),
        Operation::Grow { object, size } => change.grow(*object, *size),
        Operation::FinishTruncate { object, version } => change.finish_truncate(*object, *version),
        Operation::Extend {
            object,
            end,
            modified,
            version,
            reached,
            from,
        } => {
            let written = written((*end, *modified, *version), reached, *from);
            change.extend(*object, &written)
        }
        Operation::EndAppend {
            object,
            append_lock,
            end,
            modified,
            version,
            reached,
        } => {
            // Behind the end: no hole in between.
            let written = written((*end, *modified, *version), reached, 0);
            change.end_append(*object, *append_lock, &written)
        }
        Operation::WriteStuffed {
            object,
            offset,
            data,
        } => change.write_stuffed(*object, Some(*offset), data),
        Operation::Append { object, data } => change.write_stuffed(*object, None, data),
        Operation::Filled { object, changed } => change.filled(*object, *changed),
        Operation::BeginUnstuff { object } => change.begin_unstuff(*object),
        Operation::FinishUnstuff { object } => change.finish_unstuff(*object),
        Operation::AddServer { name } => change.add_server(name),
        Operation::AcceptServer { name, generation } => change.accept_server(name, *generation),
        Operation::DrainServer { name } => change.drain_server(name),
        Operation::SetXattr {
            object,
            name,
            value,
            mode,
        } => change.set_xattr(*object, name, value, *mode),
        Operation::RemoveXattr { object, name } => change.remove_xattr(*object, name),
        Operation::Commit => Ok(ReplyBody::Done),
        Operation::Check { after, repair } => check::run(change, after.as_ref(), *repair),
        _ => fail(
            Errno::WRONG_SERVER,
            "the metadata server keeps no datafiles",
        ),
    }
}

/// What a client says that it has written: up to where, when, and in which version of the content.
fn written(
    (end, modified, version): (u64, Timestamp, u64),
    reached: &[Reach],
    from: u64,
) -> Written<'_> {
    Written {
        end,
        modified,
        version,
        reached,
        from,
    }
}
