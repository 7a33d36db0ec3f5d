//! Changes of the layout by operators.

use causeway_wire::fs::{Errno, Generation, ReplyBody};
use causeway_wire::store::ServerRecord;

use super::change::Change;
use super::fault::{Outcome, fail};
use super::layout::Layout;

impl Change<'_> {
    /// Adds a server, which new files use once it is registered, or a drained one again.
    pub(super) fn add_server(&mut self, name: &str) -> Outcome<ReplyBody> {
        let layout = Layout::load(&*self.state)?;
        if let Some((index, record)) = layout.find(name) {
            if !record.active && !record.generation.is_none() {
                let record = ServerRecord {
                    active: true,
                    ..record.clone()
                };
                self.put_server(&layout, index, &record);
                return Ok(ReplyBody::Done);
            }
            return fail(
                Errno::EEXIST,
                format!("the file system has a server {name} already: its number {index}"),
            );
        }
        let Ok(index) = u16::try_from(layout.servers.len()) else {
            return fail(Errno::ENOSPC, "the file system has all servers it can have");
        };
        let record = ServerRecord {
            name: name.to_owned(),
            generation: Generation::NONE,
            accepted: Generation::NONE,
            active: false,
        };
        self.put_server(&layout, index, &record);
        Ok(ReplyBody::Done)
    }

    /// Keeps new files from a server.
    pub(super) fn drain_server(&mut self, name: &str) -> Outcome<ReplyBody> {
        let layout = Layout::load(&*self.state)?;
        let (index, record) = layout.known(name)?;
        if record.active && layout.active() == [index] {
            return fail(
                Errno::EBUSY,
                format!("{name} is the only server that new files use: add another one first"),
            );
        }
        let record = ServerRecord {
            active: false,
            ..record.clone()
        };
        self.put_server(&layout, index, &record);
        Ok(ReplyBody::Done)
    }

    /// Accepts a directory in place of a server's present one.
    pub(super) fn accept_server(
        &mut self,
        name: &str,
        generation: Generation,
    ) -> Outcome<ReplyBody> {
        let layout = Layout::load(&*self.state)?;
        let (index, record) = layout.known(name)?;
        if generation.is_none() {
            return fail(Errno::EINVAL, "a directory's generation is never 0");
        }
        // A directory that was registered before is registered again, too: its own record of that may be lost.
        let record = ServerRecord {
            accepted: generation,
            ..record.clone()
        };
        self.put_server(&layout, index, &record);
        Ok(ReplyBody::Done)
    }

    fn put_server(&mut self, layout: &Layout, index: u16, record: &ServerRecord) {
        for (key, value) in layout.with_server(index, record) {
            self.state.put(key, value);
        }
    }
}
