//! Replies that tell the kernel of attributes: they wait until it has dropped pages that a new size would make content of ([`file_end`](crate::file_end)).

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use causeway_fs::client::EntryTimes;
use causeway_wire::fs::{Errno as WireErrno, Kind, ObjectId};
use fuser::{Errno, Generation, INodeNo, ReplyAttr, ReplyDirectoryPlus, ReplyEntry};

use crate::attributes::{Failed, Outcome, Shown, for_kernel};
use crate::file_end::FileEnd;
use crate::listed::Listed;
use crate::operations::Mounted;

/// Most replies to writes that wait at once: half as many as the kernel has requests under way in the background.
const MAX_WAITING_WRITES: usize = 8;

/// Files, each with bytes whose pages the kernel has to drop.
type Pages = Vec<(ObjectId, Range<u64>)>;

/// A name in a directory.
pub(crate) fn name_in(parent: INodeNo, name: &OsStr) -> (ObjectId, Vec<u8>) {
    (ObjectId(parent.0), name.as_bytes().to_vec())
}

fn reply_entry(times: &EntryTimes, shown: &Shown, reply: ReplyEntry) {
    reply.entry_with_ttls(
        &times.attributes,
        &times.name,
        &for_kernel(shown),
        Generation(0),
    );
}

impl Mounted {
    /// Pages that the kernel has to drop before it learns of these attributes.
    fn pages_before<'a>(&self, all: impl Iterator<Item = &'a Shown>) -> Pages {
        let files = all.filter(|shown| shown.attributes.kind == Kind::File);
        let pages = files.filter_map(|shown| {
            let size = shown.attributes.size;
            self.pages_of(shown.object, |end| end.tell(size))
        });
        pages.collect()
    }

    fn pages_of(
        &self,
        file: ObjectId,
        tell: impl FnOnce(&mut FileEnd) -> Option<Range<u64>>,
    ) -> Option<(ObjectId, Range<u64>)> {
        let bytes = self.caches.with_end(file, tell).flatten()?;
        Some((file, bytes))
    }

    /// Calls `reply` once the kernel has dropped these pages. It drops them when the requests to read and write them are done, so a thread that serves it must not wait for that.
    fn when_dropped(self: &Arc<Self>, pages: Pages, reply: impl FnOnce(&Self) + Send + 'static) {
        if pages.is_empty() {
            return reply(self);
        }
        let mounted = Arc::clone(self);
        self.caches.drop_ends(pages, move || reply(&mounted));
    }

    /// Replies with the attributes of an object.
    pub(crate) fn reply_attributes(self: &Arc<Self>, outcome: Outcome<Shown>, reply: ReplyAttr) {
        match outcome {
            Ok(shown) => {
                self.when_dropped(self.pages_before([&shown].into_iter()), move |mounted| {
                    mounted.reply_with(&shown, |time| reply.attr(time, &for_kernel(&shown)));
                })
            }
            Err(failed) => reply.error(failed.into()),
        }
    }

    /// The same for a request that has set the size: it keeps the kernel from writing pages back, so it must not wait for that.
    pub(crate) fn reply_resized(self: &Arc<Self>, outcome: Outcome<Shown>, reply: ReplyAttr) {
        match outcome {
            Ok(shown) => {
                self.when_dropped(self.pages_before([&shown].into_iter()), |_| ());
                self.reply_with(&shown, |time| reply.attr(time, &for_kernel(&shown)));
            }
            Err(failed) => reply.error(failed.into()),
        }
    }

    /// Notes that the kernel has written these bytes through its cache. The request holds their pages, so it does not wait.
    pub(crate) fn note_written(self: &Arc<Self>, file: ObjectId, bytes: Range<u64>) {
        let pages = self.pages_of(file, |end| end.note_written(bytes));
        self.when_dropped(pages.into_iter().collect(), |_| ());
    }

    /// Replies that the kernel has written up to this offset past its cache.
    pub(crate) fn reply_written_past(
        self: &Arc<Self>,
        file: ObjectId,
        end: u64,
        reply: impl FnOnce() + Send + 'static,
    ) {
        let Some(pages) = self.pages_of(file, |known| known.note_written_past(end)) else {
            return reply();
        };
        // To drop a page, the kernel may have to write it back, by a request that waits for those in the background to end: these may be all that it permits.
        let waiting = self.waiting_writes.fetch_add(1, Ordering::Relaxed);
        if waiting >= MAX_WAITING_WRITES {
            self.waiting_writes.fetch_sub(1, Ordering::Relaxed);
            reply();
            return self.when_dropped(vec![pages], |_| ());
        }
        self.when_dropped(vec![pages], |mounted| {
            mounted.waiting_writes.fetch_sub(1, Ordering::Relaxed);
            reply();
        });
    }

    /// Notes that a request has made the file as large as this. It does not wait.
    pub(crate) fn note_grown(self: &Arc<Self>, file: ObjectId, size: u64) {
        let pages = self.pages_of(file, |end| end.note_written_past(size));
        self.when_dropped(pages.into_iter().collect(), |_| ());
    }

    /// Replies with what has got a name.
    pub(crate) fn reply_made(
        self: &Arc<Self>,
        name: (ObjectId, Vec<u8>),
        outcome: Outcome<Shown>,
        reply: ReplyEntry,
    ) {
        self.reply_named(name, outcome, true, reply);
    }

    /// Replies with what a name stands for, or that it stands for nothing.
    pub(crate) fn reply_looked_up(
        self: &Arc<Self>,
        name: (ObjectId, Vec<u8>),
        outcome: Outcome<Shown>,
        reply: ReplyEntry,
    ) {
        match outcome {
            Err(Failed(WireErrno::ENOENT)) => {
                self.reply_with_entry((name.0, &name.1), None, false, |times| {
                    match times.name.is_zero() {
                        true => reply.error(Errno::ENOENT),
                        // An entry without an object is that of a missing name.
                        false => reply_entry(times, &Shown::NOTHING, reply),
                    }
                });
            }
            outcome => self.reply_named(name, outcome, false, reply),
        }
    }

    fn reply_named(
        self: &Arc<Self>,
        (directory, name): (ObjectId, Vec<u8>),
        outcome: Outcome<Shown>,
        is_changed: bool,
        reply: ReplyEntry,
    ) {
        match outcome {
            Ok(shown) => {
                self.when_dropped(self.pages_before([&shown].into_iter()), move |mounted| {
                    mounted.reply_with_entry(
                        (directory, &name),
                        Some(&shown),
                        is_changed,
                        |times| {
                            reply_entry(times, &shown, reply);
                        },
                    );
                })
            }
            Err(failed) => reply.error(failed.into()),
        }
    }

    /// Replies with as many of these entries as there is room for.
    pub(crate) fn reply_listed(
        self: &Arc<Self>,
        directory: ObjectId,
        listed: Vec<Listed>,
        reply: ReplyDirectoryPlus,
    ) {
        let named = listed.iter().filter(|listed| !listed.is_dot);
        let pages = self.pages_before(named.map(|listed| &listed.shown));
        self.when_dropped(pages, move |mounted| {
            mounted.reply_listed_now(directory, &listed, reply)
        });
    }

    fn reply_listed_now(
        &self,
        directory: ObjectId,
        listed: &[Listed],
        mut reply: ReplyDirectoryPlus,
    ) {
        let named = listed.iter().filter(|listed| !listed.is_dot);
        let named = named.map(|listed| (&listed.name[..], &listed.shown));
        self.reply_with_entries(directory, named, |times| {
            let mut times = times.iter();
            let mut given = 0;
            for listed in listed {
                let times = match listed.is_dot {
                    true => None,
                    false => times.next(),
                };
                // The reply has one time for both.
                let time = times.map(|times| times.name.min(times.attributes));
                let is_full = reply.add(
                    INodeNo(listed.shown.object.0),
                    listed.next,
                    OsStr::from_bytes(&listed.name),
                    &time.unwrap_or_default(),
                    &for_kernel(&listed.shown),
                    Generation(0),
                );
                if is_full {
                    break;
                }
                given += usize::from(!listed.is_dot);
            }
            reply.ok();
            given
        });
    }
}
