//! Storing a file in the file system so that its name leads to the old content or to all of the new
//! one, never to a mixture: written under a temporary name, made durable, given its attributes,
//! renamed.

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::printable;
use causeway_command::remote::{exists_already, reading};
use causeway_fs::Error;
use causeway_fs::client::{Client, CreateOptions, File};
use causeway_wire::fs::{
    Acl, AclKind, Attributes, Body, DistributionHint, Errno, Kind, MAX_STUFFED_BYTES, Node,
    ObjectId, SetAttributes,
};
use clap::Args;

use crate::fs::engine::Lost;
use crate::fs::lists::mode_without;
use crate::fs::local::safe_mode;
use crate::fs::partial::Partial;
use crate::fs::tree::RemoteName;

/// How files are written.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Writing {
    /// Write into a file that exists, through links, instead of beside it: keeps its other names, and
    /// leaves it partly written if interrupted
    #[arg(long)]
    pub(crate) inplace: bool,
    /// Do not wait until the data is on the servers' disks
    #[arg(long)]
    pub(crate) no_sync: bool,
}

/// The file of which a copy is made, as far as the copy should match it.
#[derive(Debug, Clone)]
pub(crate) struct Original<'a> {
    /// Permission bits; with a list, its mask is the group's digit.
    pub(crate) mode: u16,
    /// Its access control list, if that says more than the mode.
    pub(crate) acl: Option<Box<Acl>>,
    /// Whether there is no original, and the copy keeps the list that it has got from its directory.
    pub(crate) inherits: bool,
    /// Owner and group.
    pub(crate) owner: (u32, u32),
    /// Whether the copy gets owner and group too: only root can set them.
    pub(crate) keep_owner: bool,
    /// Times to set.
    pub(crate) times: SetAttributes,
    /// Where lists are counted that copies cannot have.
    pub(crate) lost: &'a Lost,
}

impl Original<'_> {
    /// The attributes to set on a copy that has these now, with this mode.
    fn set(&self, copy: &Attributes, mode: u16) -> SetAttributes {
        let (uid, gid) = match self.keep_owner {
            true => self.owner,
            false => (copy.uid, copy.gid),
        };
        SetAttributes {
            mode: Some(safe_mode(mode, self.owner, (uid, gid))),
            uid: (uid != copy.uid).then_some(uid),
            gid: (gid != copy.gid).then_some(gid),
            ..self.times.clone()
        }
    }

    /// The mode with which a copy is made, before its list and its owner are set.
    pub(crate) fn first_mode(&self) -> u16 {
        self.mode_without_list() & 0o1777
    }

    /// The mode for a copy without its list that gives no user more permissions than the original
    /// does.
    pub(crate) fn mode_without_list(&self) -> u16 {
        mode_without(self.mode, self.acl.as_deref())
    }
}

/// Whether setting these attributes would change anything.
fn changes(set: &SetAttributes, copy: &Attributes) -> bool {
    set.mode.is_some_and(|mode| mode != copy.mode)
        || *set
            != SetAttributes {
                mode: set.mode,
                ..SetAttributes::default()
            }
}

/// Whether only another user may set these attributes.
pub(crate) fn is_foreign(copy: &Attributes) -> bool {
    let caller = rustix::process::geteuid();
    !caller.is_root() && caller.as_raw() != copy.uid
}

/// Gives a copy the list of its original. Returns the attributes that it lacks then.
pub(crate) fn missing_attributes(
    client: &mut Client,
    original: &Original<'_>,
    copy: &Node,
) -> Result<Option<SetAttributes>, Error> {
    if copy.attributes.kind == Kind::SymbolicLink {
        let set = SetAttributes {
            mode: None,
            ..original.set(&copy.attributes, original.mode)
        };
        return Ok(changes(&set, &copy.attributes).then_some(set));
    }
    let listed = set_list(client, copy, original)?;
    let set = original.set(&copy.attributes, listed.mode);
    // The list has set the mode, perhaps without the bit that sets the group ID.
    Ok((listed.is_changed || changes(&set, &copy.attributes)).then_some(set))
}

/// Sets the attributes that a copy with this path lacks of its original.
pub(crate) fn set_copy_attributes(
    client: &mut Client,
    (copy, path): (&Node, &[u8]),
    original: &Original<'_>,
) -> Outcome {
    let missing = missing_attributes(client, original, copy);
    if let Some(set) = missing.map_err(|error| reading(path, error))? {
        client
            .set_attributes(copy.object, set)
            .map_err(|error| reading(path, error))?;
    }
    Ok(())
}

/// The same for a file or link that other clients may replace: one that was replaced needs nothing more.
fn set_current_attributes(
    client: &mut Client,
    (copy, path): (&Node, &[u8]),
    original: &Original<'_>,
) -> Outcome {
    match set_copy_attributes(client, (copy, path), original) {
        Err(failure) if failure.gone => Ok(()),
        result => result,
    }
}

/// A file that is being stored.
#[derive(Debug)]
pub(crate) struct Storing {
    /// The file that is written to.
    pub(crate) file: File,
    to: RemoteName,
    /// Its temporary name, unless it was made under its own.
    partial: Option<Partial>,
    /// The file existed, and another user owns it: mode and times stay as they are.
    pub(crate) foreign: bool,
}

impl Writing {
    /// Stores a small file at once. Returns the state for [`Storing::finish`].
    pub(crate) fn small(
        self,
        client: &mut Client,
        to: &RemoteName,
        original: &Original<'_>,
        distribution: Option<DistributionHint>,
        content: Vec<u8>,
    ) -> Outcome<Storing> {
        let options = CreateOptions {
            exclusive: true,
            mode: original.first_mode(),
            distribution,
            content,
        };
        // A new file is made with its content, in one request: it needs no temporary name.
        match client.create(to.place(), &options) {
            Ok(file) => return Ok(Storing::new(file, to, None)),
            Err(error) if exists_already(&error) => {}
            Err(error) => return Err(to.failure(error)),
        }
        if self.inplace {
            return open_in_place(client, to, &options);
        }
        beside(client, to, &options)
    }

    /// Begins a file whose content is written in pieces.
    pub(crate) fn begin(
        self,
        client: &mut Client,
        to: &RemoteName,
        original: &Original<'_>,
        distribution: Option<DistributionHint>,
    ) -> Outcome<Storing> {
        let mut options = CreateOptions {
            exclusive: true,
            mode: original.first_mode(),
            distribution,
            content: Vec::new(),
        };
        if !self.inplace {
            // No other client reads it before it is complete.
            options.mode &= 0o700;
            return beside(client, to, &options);
        }
        match client.create(to.place(), &options) {
            Ok(file) => Ok(Storing::new(file, to, None)),
            Err(error) if exists_already(&error) => open_in_place(client, to, &options),
            Err(error) => Err(to.failure(error)),
        }
    }
}

fn beside(client: &mut Client, to: &RemoteName, options: &CreateOptions) -> Outcome<Storing> {
    let there = to.lookup(client)?;
    let kind = there.map(|node| node.attributes.kind);
    if kind == Some(Kind::Directory) {
        return Err(is_a_directory(to));
    }
    let made = Partial::make(client, to, |client, place| client.create(place, options));
    let (partial, file) = made.map_err(|failure| match kind {
        Some(_) if !failure.fatal => {
            failure.hint("if the file may be written but not its directory, use --inplace")
        }
        _ => failure,
    })?;
    Ok(Storing::new(file, to, Some(partial)))
}

pub(crate) fn is_a_directory(to: &RemoteName) -> Failure {
    Failure::new(
        format!("storing {}", printable(&to.path)),
        "a directory has that name",
    )
    .hint("remove it, or copy to another place")
}

/// Replaces the content of the file that has the name.
fn open_in_place(
    client: &mut Client,
    to: &RemoteName,
    options: &CreateOptions,
) -> Outcome<Storing> {
    let fail = |error| to.failure(error);
    let mut file = client.open(to.place()).map_err(fail)?;
    if file.node.attributes.kind == Kind::Directory {
        return Err(is_a_directory(to));
    }
    if options.distribution.is_some() {
        return Err(Failure::new(
            format!("storing {}", printable(&to.path)),
            "a file that exists keeps its distribution",
        )
        .hint("leave out --inplace, or leave out --strip-size and --servers"));
    }
    client.truncate(&mut file, 0).map_err(fail)?;
    if !options.content.is_empty() {
        client
            .write_at(&mut file, 0, &options.content)
            .map_err(fail)?;
    }
    Ok(Storing {
        foreign: is_foreign(&file.node.attributes),
        ..Storing::new(file, to, None)
    })
}

impl Storing {
    fn new(file: File, to: &RemoteName, partial: Option<Partial>) -> Self {
        Self {
            file,
            to: to.clone(),
            partial,
            foreign: false,
        }
    }

    /// Sets the size of a file that is written in pieces in advance, so that parts that are never
    /// written are holes, also at its end.
    pub(crate) fn reserve(&mut self, client: &mut Client, size: u64) -> Outcome {
        if size > MAX_STUFFED_BYTES as u64 {
            self.grow(client, size)?;
        }
        Ok(())
    }

    fn grow(&mut self, client: &mut Client, size: u64) -> Outcome {
        let grown = client.truncate(&mut self.file, size);
        grown.map_err(|error| self.to.failure(error))
    }

    /// Completes a file of `size` bytes, which have been written: makes it durable if `sync`, sets
    /// its attributes and renames it.
    pub(crate) fn finish(
        &mut self,
        client: &mut Client,
        original: &Original<'_>,
        size: u64,
        sync: bool,
    ) -> Outcome {
        let finished = self.try_finish(client, original, size, sync);
        if finished.is_err() {
            self.discard(client);
        }
        finished
    }

    fn try_finish(
        &mut self,
        client: &mut Client,
        original: &Original<'_>,
        size: u64,
        sync: bool,
    ) -> Outcome {
        if self.file.node.attributes.size < size {
            self.grow(client, size)?;
        }
        // A small file is durable with its metadata, which is committed once at the end.
        if sync && matches!(self.file.node.body, Body::Striped { .. }) {
            client
                .fsync(&mut self.file)
                .map_err(|error| self.to.failure(error))?;
        }
        if !self.foreign {
            set_current_attributes(client, (&self.file.node, &self.to.path), original)?;
        }
        match &self.partial {
            Some(partial) => partial.finish(client, &self.to),
            None => Ok(()),
        }
    }

    /// Abandons the file: removes it if it has a temporary name.
    pub(crate) fn discard(&self, client: &mut Client) {
        if let Some(partial) = &self.partial {
            partial.discard(client);
        }
    }
}

/// Makes a symbolic link, replacing an existing file or link.
pub(crate) fn store_link(
    client: &mut Client,
    to: &RemoteName,
    target: &[u8],
    original: &Original<'_>,
) -> Outcome {
    match client.symbolic_link(target, to.place()) {
        Ok(node) => return set_current_attributes(client, (&node, &to.path), original),
        Err(error) if exists_already(&error) => {}
        Err(error) => return Err(to.failure(error)),
    }
    let (partial, node) = Partial::make(client, to, |client, place| {
        client.symbolic_link(target, place)
    })?;
    let finished = set_copy_attributes(client, (&node, &to.path), original)
        .and_then(|()| partial.finish(client, to));
    if finished.is_err() {
        partial.discard(client);
    }
    finished
}

/// Makes a further name for a stored file, replacing an existing file or link.
pub(crate) fn store_hard_link(client: &mut Client, object: ObjectId, to: &RemoteName) -> Outcome {
    match client.hard_link_object(object, to.place()) {
        Ok(_) => return Ok(()),
        Err(error) if exists_already(&error) => {}
        Err(error) => return Err(to.failure(error)),
    }
    if to.lookup(client)?.is_some_and(|node| node.object == object) {
        return Ok(());
    }
    let (partial, _) = Partial::make(client, to, |client, place| {
        client.hard_link_object(object, place)
    })?;
    let finished = partial.finish(client, to);
    // If the name led to the same file by then, the renaming would have left this one.
    if finished.is_err() || client.stat(partial.place(), false).is_ok() {
        partial.discard(client);
    }
    finished
}

/// The result of setting a copy's list.
struct Listed {
    /// The mode that the copy gets.
    mode: u16,
    /// Whether the list was set, and the mode with it.
    is_changed: bool,
}

/// Gives a copy in the file system the list of its original, or none if the original has none.
fn set_list(client: &mut Client, copy: &Node, original: &Original<'_>) -> Result<Listed, Error> {
    if let Some(acl) = &original.acl {
        let acl = acl.as_ref().clone().with_mode(original.mode);
        match client.set_acl(copy.object, AclKind::Access, Some(&acl)) {
            // Servers of an earlier build have no lists.
            Err(error) if error.errno == Errno::EOPNOTSUPP => Lost::add(&original.lost.lists),
            set => {
                return set.map(|()| Listed {
                    mode: original.mode,
                    is_changed: true,
                });
            }
        }
    }
    let mode = original.mode_without_list();
    let is_changed = copy.acl.is_some() && !original.inherits;
    if is_changed {
        client.set_acl(copy.object, AclKind::Access, Some(&Acl::of_mode(mode)))?;
    }
    Ok(Listed { mode, is_changed })
}
