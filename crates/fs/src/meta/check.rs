//! Checking the name space while it is in use, and repairing what is wrong.
//!
//! Everything that must agree is reachable from each record by a few lookups: an entry and its
//! object's names, an object's names and its count of links, a directory and its entries. So a check
//! goes record by record, in batches, and each batch is one request among others: it sees a state
//! between two changes, and what it repairs is part of that batch. A cursor (the phase and the last
//! record's key) leads from batch to batch. Entries come before objects, so that an object whose entry has been
//! removed is then found without a name.

use std::collections::HashSet;

use causeway_wire::codec::Wire;
use causeway_wire::fs::{
    Acl, AclKind, Body, Caller, CheckCursor, DistributionHint, Errno, Kind, MAX_NAME_BYTES,
    ObjectId, ReplyBody,
};
use causeway_wire::store::{
    EntryRecord, Key, ObjectRecord, OrphanRecord, RemovalRecord, XattrsRecord, content_key,
    entry_key, link_key, orphan_key, removal_key, xattrs_key,
};

use super::acls::flag_of;
use super::change::Change;
use super::fault::{Outcome, fail, quoted, unless_corrupt};
use super::query::{StoredObject, find_entry, find_object, further_names, owns};
use super::store::{View, prefix_end};

/// Records of one batch.
const BATCH_RECORDS: usize = 256;
/// A batch also ends when its findings have this many bytes.
const BATCH_FINDING_BYTES: usize = 16 << 10;
/// A batch also ends when its records have taken this many lookups beside their own: entries of a
/// directory, directories on the way up. One directory is never checked in parts.
const BATCH_WORK: usize = 32 << 10;
/// Kinds of records in the order in which they are checked; a cursor's phase is an index into this.
const PHASES: &[u8] = b"elocrxq";
/// Steps upwards after which a directory counts as deep rather than on a loop.
const MAX_STEPS: usize = 8192;
/// The directory for objects that have lost their names.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// An inconsistency, and what would be right.
struct Finding {
    text: String,
    fix: Fix,
}

/// How to repair an inconsistency.
enum Fix {
    /// Nothing can be repaired without losing more.
    None,
    RemoveEntry(ObjectId, Vec<u8>),
    RemoveLink(ObjectId, ObjectId, Vec<u8>),
    /// The entry is right: the object's record must get this name.
    Adopt(ObjectId, ObjectId, Vec<u8>),
    /// The entry is right, except for the kind of the object.
    SetKind(ObjectId, Vec<u8>, EntryRecord),
    /// The first name was removed: a further name becomes the first.
    Promote(ObjectId, ObjectId, Vec<u8>),
    /// Gives the object a name in [`LOST_AND_FOUND`], in place of the one that it has, if any.
    Attach(ObjectId),
    SetCounts(ObjectId, u32, u64),
    SetSize(ObjectId, u64),
    RemoveContent(ObjectId),
    RemoveRemoval(ObjectId),
    RemoveXattrs(ObjectId),
    /// Takes away the access control lists that the object's record has and its extended attributes lack.
    DropAcl(ObjectId, AclKind),
    RemoveOrphan(ObjectId),
}

/// Checks one batch without repairing anything.
pub(super) fn inspect_batch(
    view: &dyn View,
    caller: &Caller,
    after: Option<&CheckCursor>,
) -> Outcome<ReplyBody> {
    check_caller(view, caller)?;
    let places = next_places(view, after)?;
    check_places(places, |place, batch| {
        for finding in inspect(view, &place.key, &mut batch.effort)? {
            batch.find(finding.text);
        }
        Ok(())
    })
}

/// Checks one batch, and repairs what is found if `repair` is set.
pub(super) fn run(
    change: &mut Change<'_>,
    after: Option<&CheckCursor>,
    repair: bool,
) -> Outcome<ReplyBody> {
    if !repair {
        return inspect_batch(&*change.state, change.caller, after);
    }
    check_caller(&*change.state, change.caller)?;
    let places = next_places(&*change.state, after)?;
    check_places(places, |place, batch| {
        for finding in inspect(&*change.state, &place.key, &mut batch.effort)? {
            batch.repaired += u64::from(apply(change, finding.fix)?);
            batch.effort.reach_root.clear();
            batch.find(finding.text);
        }
        Ok(())
    })
}

/// Checks the places of a batch with `check` until the batch is full.
fn check_places(
    (places, end): (Vec<CheckCursor>, Option<CheckCursor>),
    mut check: impl FnMut(&CheckCursor, &mut Batch) -> Outcome<()>,
) -> Outcome<ReplyBody> {
    let mut batch = Batch::default();
    for place in places {
        batch.records += 1;
        check(&place, &mut batch)?;
        if batch.is_full() {
            return Ok(batch.into_reply(Some(place)));
        }
    }
    Ok(batch.into_reply(end))
}

/// The result of a batch.
#[derive(Default)]
struct Batch {
    records: u64,
    findings: Vec<String>,
    finding_bytes: usize,
    repaired: u64,
    effort: Effort,
}

/// The cost of a batch, and which directories it has found to be reachable.
#[derive(Default)]
struct Effort {
    /// Lookups besides the records' own.
    work: usize,
    /// Directories from which the way up leads to the root, in the state that the batch sees: a deep tree is not walked up
    /// for each of its directories.
    reach_root: HashSet<ObjectId>,
}

impl Batch {
    fn find(&mut self, text: String) {
        self.finding_bytes += text.len();
        self.findings.push(text);
    }

    fn is_full(&self) -> bool {
        self.finding_bytes > BATCH_FINDING_BYTES || self.effort.work > BATCH_WORK
    }

    fn into_reply(self, next: Option<CheckCursor>) -> ReplyBody {
        ReplyBody::Checked {
            next,
            records: self.records,
            findings: self.findings,
            mended: self.repaired,
        }
    }
}

pub(super) fn check_caller(view: &dyn View, caller: &Caller) -> Outcome<()> {
    match find_object(view, ObjectId::ROOT)? {
        Some(root) if !owns(&root, caller) => fail(
            Errno::EPERM,
            "only user 0 and the owner of the root directory may check the file system",
        ),
        _ => Ok(()),
    }
}

/// The positions of the batch behind `after`, and the cursor behind them; `None` at the end of the check.
fn next_places(
    view: &dyn View,
    after: Option<&CheckCursor>,
) -> Outcome<(Vec<CheckCursor>, Option<CheckCursor>)> {
    let begun = after.map_or(0, |cursor| usize::from(cursor.phase));
    let fits = |cursor: &CheckCursor| PHASES.get(begun) == cursor.key.first();
    if !after.is_none_or(fits) {
        return fail(Errno::EINVAL, "that is no cursor of a check");
    }
    let mut places = Vec::new();
    for (phase, kind) in PHASES.iter().enumerate().skip(begun) {
        let start = match after {
            Some(cursor) if phase == begun => [&cursor.key[..], &[0]].concat(),
            _ => vec![*kind],
        };
        for pair in view.range(&start, &prefix_end(&[*kind])) {
            places.push(CheckCursor {
                phase: phase as u8,
                key: pair?.0,
            });
            if places.len() == BATCH_RECORDS {
                let end = places.last().cloned();
                return Ok((places, end));
            }
        }
    }
    Ok((places, None))
}

/// The inconsistencies of one record.
fn inspect(view: &dyn View, key: &[u8], effort: &mut Effort) -> Outcome<Vec<Finding>> {
    let Ok(parsed) = Key::parse(key) else {
        return Ok(vec![Finding {
            text: format!("a record has the meaningless key {key:02x?}"),
            fix: Fix::None,
        }]);
    };
    match parsed {
        Key::Entry(directory, name) => inspect_entry(view, directory, name),
        Key::Link(object, directory, name) => inspect_link(view, object, directory, name),
        Key::Object(object) => inspect_object(view, object, effort),
        Key::Content(object) => {
            let wanted = matches!(
                find(view, object)?,
                Lookup::Found(ObjectRecord {
                    body: Body::Stuffed { .. },
                    size: 1..,
                    ..
                }) | Lookup::Damaged
            );
            Ok(found(!wanted, || Finding {
                text: format!("content is kept for object {}, which has none", object.0),
                fix: Fix::RemoveContent(object),
            }))
        }
        Key::Removal(object) => {
            let record = view.get(key)?.unwrap_or_default();
            if RemovalRecord::from_bytes(&record).is_err() {
                return Ok(found(true, || Finding {
                    text: format!("the record of the removed object {} is damaged", object.0),
                    fix: Fix::RemoveRemoval(object),
                }));
            }
            let gone = matches!(find(view, object)?, Lookup::Missing);
            Ok(found(!gone, || Finding {
                text: format!("object {} is noted as removed but exists", object.0),
                fix: Fix::RemoveRemoval(object),
            }))
        }
        Key::Xattrs(object) => {
            let record = view.get(key)?.unwrap_or_default();
            // Most other records have less than this.
            effort.work += record.len() / 1024;
            let what = match (XattrsRecord::from_bytes(&record), find(view, object)?) {
                (Err(_), _) => "are damaged",
                (Ok(_), Lookup::Missing) => "are kept, and it does not exist",
                (Ok(_), Lookup::Damaged | Lookup::Found(_)) => return Ok(Vec::new()),
            };
            Ok(found(true, || Finding {
                text: format!("extended attributes of object {} {what}", object.0),
                fix: Fix::RemoveXattrs(object),
            }))
        }
        Key::Orphan(object) => {
            let record = view.get(key)?.unwrap_or_default();
            let what = match (OrphanRecord::from_bytes(&record), find(view, object)?) {
                (_, Lookup::Missing) => "does not exist",
                (_, Lookup::Found(ObjectRecord { links: 1.., .. })) => "has a name",
                (Err(_), _) => "has a damaged record of that",
                (Ok(_), Lookup::Damaged | Lookup::Found(_)) => return Ok(Vec::new()),
            };
            Ok(found(true, || Finding {
                text: format!(
                    "object {} is noted as open without a name, and {what}",
                    object.0
                ),
                fix: Fix::RemoveOrphan(object),
            }))
        }
        _ => Ok(Vec::new()),
    }
}

fn found(wrong: bool, finding: impl FnOnce() -> Finding) -> Vec<Finding> {
    wrong.then(finding).into_iter().collect()
}

/// The result of the lookup of an object.
enum Lookup {
    Missing,
    Damaged,
    Found(ObjectRecord),
}

fn find(view: &dyn View, object: ObjectId) -> Outcome<Lookup> {
    Ok(match unless_corrupt(find_object(view, object))? {
        Some(Some(record)) => Lookup::Found(record),
        Some(None) => Lookup::Missing,
        None => Lookup::Damaged,
    })
}

/// Whether a directory's entry of that name names the object.
fn names(view: &dyn View, directory: ObjectId, name: &[u8], object: ObjectId) -> Outcome<bool> {
    let entry = unless_corrupt(find_entry(view, directory, name))?.flatten();
    Ok(entry.is_some_and(|entry| entry.object == object))
}

fn inspect_entry(view: &dyn View, directory: ObjectId, name: Vec<u8>) -> Outcome<Vec<Finding>> {
    let label = format!("entry {} of directory {}", quoted(&name), directory.0);
    let remove = |why: String| {
        Ok(vec![Finding {
            text: format!("{label} {why}"),
            fix: Fix::RemoveEntry(directory, name.clone()),
        }])
    };
    let bad_name = name.is_empty()
        || name.len() > MAX_NAME_BYTES
        || name.contains(&b'/')
        || name.contains(&0)
        || name == b"."
        || name == b"..";
    if bad_name {
        return remove("has a name that cannot be".into());
    }
    let entry = match unless_corrupt(find_entry(view, directory, &name))? {
        Some(Some(entry)) => entry,
        Some(None) => return Ok(Vec::new()),
        None => return remove("is damaged".into()),
    };
    match find(view, directory)? {
        Lookup::Found(record) if record.kind() == Kind::Directory => {}
        Lookup::Damaged => return Ok(Vec::new()),
        _ => return remove("belongs to a directory that does not exist".into()),
    }
    let record = match find(view, entry.object)? {
        Lookup::Found(record) => record,
        Lookup::Damaged => return Ok(Vec::new()),
        Lookup::Missing => {
            return remove(format!(
                "names object {}, which does not exist",
                entry.object.0
            ));
        }
    };
    let mut findings = Vec::new();
    if record.kind() != entry.kind {
        let kind = record.kind();
        findings.push(Finding {
            text: format!("{label} says {:?} but names a {kind:?}", entry.kind),
            fix: Fix::SetKind(directory, name.clone(), EntryRecord { kind, ..entry }),
        });
    }
    let known = (record.parent, &record.name) == (directory, &name)
        || view
            .get(&link_key(entry.object, directory, &name))?
            .is_some();
    if !known {
        let first = names(view, record.parent, &record.name, entry.object)?;
        if record.kind() == Kind::Directory && (first || entry.object == ObjectId::ROOT) {
            return remove(format!("is a second name of directory {}", entry.object.0));
        }
        findings.push(Finding {
            text: format!(
                "{label} is unknown to the object {} that it names",
                entry.object.0
            ),
            fix: Fix::Adopt(entry.object, directory, name),
        });
    }
    Ok(findings)
}

fn inspect_link(
    view: &dyn View,
    object: ObjectId,
    directory: ObjectId,
    name: Vec<u8>,
) -> Outcome<Vec<Finding>> {
    let why = match find(view, object)? {
        Lookup::Missing => Some("does not exist"),
        Lookup::Damaged => None,
        Lookup::Found(record) if record.kind() == Kind::Directory => Some("is a directory"),
        Lookup::Found(record) if (record.parent, &record.name) == (directory, &name) => {
            Some("has it as its first name already")
        }
        Lookup::Found(_) if !names(view, directory, &name, object)? => Some("is not what it names"),
        Lookup::Found(_) => None,
    };
    Ok(why
        .map(|why| Finding {
            text: format!(
                "name {} in directory {} is noted for object {}, which {why}",
                quoted(&name),
                directory.0,
                object.0
            ),
            fix: Fix::RemoveLink(object, directory, name),
        })
        .into_iter()
        .collect())
}

fn inspect_object(view: &dyn View, object: ObjectId, effort: &mut Effort) -> Outcome<Vec<Finding>> {
    let one = |text, fix| Ok(vec![Finding { text, fix }]);
    let record = match find(view, object)? {
        Lookup::Missing => return Ok(Vec::new()),
        Lookup::Damaged => {
            return one(
                format!("the record of object {} is damaged", object.0),
                Fix::None,
            );
        }
        Lookup::Found(record) => record,
    };
    let is_orphan = record.links == 0 && view.get(&orphan_key(object))?.is_some();
    if object != ObjectId::ROOT && !is_orphan {
        let first = names(view, record.parent, &record.name, object)?;
        if !first && let Some(other) = further_names(view, object).next() {
            let (directory, name) = other?;
            return one(
                format!("object {} is not what its first name names", object.0),
                Fix::Promote(object, directory, name),
            );
        }
        if !first {
            return one(
                format!("object {} has no name", object.0),
                Fix::Attach(object),
            );
        }
    }
    let mut findings = inspect_acls(view, object, &record, effort)?;
    match &record.body {
        Body::Directory(_) => {
            findings.extend(inspect_directory(view, object, &record, effort)?);
            Ok(findings)
        }
        body => {
            if !is_orphan {
                findings.extend(inspect_links(view, object, &record)?);
            }
            let stuffed = matches!(body, Body::Stuffed { .. });
            if stuffed && record.size > 0 {
                let content = view.get(&content_key(object))?.unwrap_or_default().len() as u64;
                if content != record.size {
                    findings.push(Finding {
                        text: format!(
                            "object {} has {} bytes but {content} of content",
                            object.0, record.size
                        ),
                        fix: Fix::SetSize(object, content),
                    });
                }
            }
            Ok(findings)
        }
    }
}

/// An object whose record has an access control list that cannot be read permits nothing to most users.
fn inspect_acls(
    view: &dyn View,
    object: ObjectId,
    record: &ObjectRecord,
    effort: &mut Effort,
) -> Outcome<Vec<Finding>> {
    let kinds = [AclKind::Access, AclKind::Default].into_iter();
    let mut kinds = kinds
        .filter(|kind| record.mode & flag_of(*kind) != 0)
        .peekable();
    if kinds.peek().is_none() {
        return Ok(Vec::new());
    }
    let bytes = view.get(&xattrs_key(object))?.unwrap_or_default();
    effort.work += 1 + bytes.len() / 1024;
    let all = XattrsRecord::from_bytes(&bytes).unwrap_or_default();
    let has = |kind: &AclKind| {
        let mut named = all.xattrs.iter().filter(|xattr| xattr.name == kind.xattr());
        named.any(|xattr| matches!(Acl::from_xattr(&xattr.value), Ok(Some(_))))
    };
    let lost = kinds.filter(|kind| !has(kind));
    let finding = |kind| {
        let text = match kind {
            // It is not known what the list permitted, so capabilities that it had allowed are not
            // ended.
            AclKind::Access => format!(
                "the access control list of object {} is lost; what it has permitted to clients they may do until their capabilities end, \
                 after the configuration's `capability_lifetime`",
                object.0
            ),
            AclKind::Default => {
                format!(
                    "the default access control list of object {} is lost",
                    object.0
                )
            }
        };
        let fix = Fix::DropAcl(object, kind);
        Finding { text, fix }
    };
    Ok(lost.map(finding).collect())
}

fn inspect_links(
    view: &dyn View,
    object: ObjectId,
    record: &ObjectRecord,
) -> Outcome<Vec<Finding>> {
    let mut names = 1;
    for name in further_names(view, object) {
        name?;
        names += 1;
    }
    Ok(found(names != record.links, || Finding {
        text: format!(
            "object {} counts {} names but has {names}",
            object.0, record.links
        ),
        fix: Fix::SetCounts(object, names, record.size),
    }))
}

fn inspect_directory(
    view: &dyn View,
    object: ObjectId,
    record: &ObjectRecord,
    effort: &mut Effort,
) -> Outcome<Vec<Finding>> {
    if is_on_loop(view, object, record, effort)? {
        return Ok(vec![Finding {
            text: format!("directory {} lies within itself, out of reach", object.0),
            fix: Fix::Attach(object),
        }]);
    }
    let prefix = entry_key(object, b"");
    let (mut entries, mut links) = (0, 2);
    for pair in view.range(&prefix, &prefix_end(&prefix)) {
        effort.work += 1;
        entries += 1;
        let entry = EntryRecord::from_bytes(&pair?.1);
        links += u32::from(entry.is_ok_and(|entry| entry.kind == Kind::Directory));
    }
    let wrong = entries != record.size || links != record.links;
    Ok(found(wrong, || Finding {
        text: format!(
            "directory {} counts {} entries and {} links but has {entries} and {links}",
            object.0, record.size, record.links
        ),
        fix: Fix::SetCounts(object, links, entries),
    }))
}

/// Whether the way up from a directory leads back to it.
fn is_on_loop(
    view: &dyn View,
    object: ObjectId,
    record: &ObjectRecord,
    effort: &mut Effort,
) -> Outcome<bool> {
    let mut above = record.parent;
    let mut passed = vec![object];
    for _ in 0..MAX_STEPS {
        if above == ObjectId::ROOT || effort.reach_root.contains(&above) {
            effort.reach_root.extend(passed);
            return Ok(false);
        }
        if above == object {
            return Ok(true);
        }
        effort.work += 1;
        passed.push(above);
        match find(view, above)? {
            Lookup::Found(record) => above = record.parent,
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Repairs one inconsistency. Returns whether it did.
fn apply(change: &mut Change<'_>, fix: Fix) -> Outcome<bool> {
    match fix {
        Fix::None => return Ok(false),
        Fix::RemoveEntry(directory, name) => change.state.remove(entry_key(directory, &name)),
        Fix::RemoveLink(object, directory, name) => {
            change.state.remove(link_key(object, directory, &name));
        }
        Fix::Adopt(object, directory, name) => adopt(change, object, directory, &name)?,
        Fix::SetKind(directory, name, entry) => {
            change
                .state
                .put(entry_key(directory, &name), entry.to_bytes());
        }
        Fix::Promote(object, directory, name) => {
            let mut record = change.query().object(object)?;
            change.state.remove(link_key(object, directory, &name));
            record.parent = directory;
            record.name = name;
            change.put_object(object, &record);
        }
        Fix::Attach(object) => attach(change, object)?,
        Fix::SetCounts(object, links, size) => {
            let mut record = change.query().object(object)?;
            record.links = links;
            record.size = size;
            change.put_object(object, &record);
        }
        Fix::SetSize(object, size) => {
            let mut record = change.query().object(object)?;
            record.size = size;
            change.put_object(object, &record);
        }
        Fix::RemoveContent(object) => change.state.remove(content_key(object)),
        Fix::RemoveXattrs(object) => change.state.remove(xattrs_key(object)),
        Fix::DropAcl(object, kind) => {
            let mut record = change.query().object(object)?;
            record.mode &= !flag_of(kind);
            if kind == AclKind::Access {
                // The digit was the mask: the group's own permissions are lost with the list.
                record.mode &= !0o070;
            }
            change.put_object(object, &record);
        }
        // An object without a name gets one in the next check.
        Fix::RemoveOrphan(object) => change.state.remove(orphan_key(object)),
        Fix::RemoveRemoval(object) => {
            change.state.remove(removal_key(object));
            change.counters.removals = change.counters.removals.saturating_sub(1);
        }
    }
    Ok(true)
}

/// Adds a name to an object's record: as its first one if that names something else.
fn adopt(
    change: &mut Change<'_>,
    object: ObjectId,
    directory: ObjectId,
    name: &[u8],
) -> Outcome<()> {
    let mut record = change.query().object(object)?;
    if names(&*change.state, record.parent, &record.name, object)? {
        record.links = record.links.saturating_add(1);
        change
            .state
            .put(link_key(object, directory, name), Vec::new());
    } else {
        record.parent = directory;
        record.name = name.to_vec();
        record.links = record.links.max(1);
    }
    change.put_object(object, &record);
    Ok(())
}

/// Names an object in the directory for lost ones.
fn attach(change: &mut Change<'_>, object: ObjectId) -> Outcome<()> {
    let mut record = change.query().object(object)?;
    let kind = record.kind();
    if names(&*change.state, record.parent, &record.name, object)? {
        change.state.remove(entry_key(record.parent, &record.name));
        change.count_entry(record.parent, kind, false)?;
        record = change.query().object(object)?;
    }
    let home = lost_and_found(change)?;
    let mut name = format!("#{}", object.0).into_bytes();
    while find_entry(&*change.state, home.object, &name)?.is_some() && name.len() < MAX_NAME_BYTES {
        name.push(b'_');
    }
    record.parent = home.object;
    record.name.clone_from(&name);
    if kind != Kind::Directory {
        record.links = 1;
    }
    change.put_object(object, &record);
    change.add_entry(home.object, &name, object, kind)
}

fn lost_and_found(change: &mut Change<'_>) -> Outcome<StoredObject> {
    let root = change.found(ObjectId::ROOT)?;
    let mut name = LOST_AND_FOUND.to_vec();
    while let Some(found) = change.query().child(&root, &name)? {
        if found.record.kind() == Kind::Directory {
            return Ok(found);
        }
        if name.len() == MAX_NAME_BYTES {
            return fail(Errno::EEXIST, "\"lost+found\" is no directory");
        }
        name.push(b'_');
    }
    change.make(
        &root,
        name,
        0o700,
        0,
        Body::Directory(DistributionHint::default()),
    )
}
