//! The checking mode's report at the end: requests and handles that the program has not freed.

use std::io::Write;

use crate::library::Library;
use crate::types::Handle;

/// The most objects of a kind that are named; the others are counted.
const NAMED: usize = 8;

fn line(kind: &str, all: &[String]) -> Option<String> {
    let more = all.len().saturating_sub(NAMED);
    let named = all[..all.len() - more].join(", ");
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!all.is_empty()).then(|| format!("{} {kind} not freed: {named}{more}", all.len()))
}

fn plain(handles: impl Iterator<Item = Handle>) -> Vec<String> {
    handles.map(|handle| format!("{handle:#x}")).collect()
}

fn named(all: Vec<(Handle, String)>) -> Vec<String> {
    let shown = all.into_iter().map(|(handle, name)| match name.is_empty() {
        true => format!("{handle:#x}"),
        false => format!("{handle:#x} ({name})"),
    });
    shown.collect()
}

impl Library {
    /// Reports objects that were not freed.
    pub(crate) fn report_leaks(&self) {
        let Some(process) = &self.process else {
            return;
        };
        let handlers = self.handlers.handles();
        let handlers = handlers.filter(|handle| {
            let handler = self.handlers.get(*handle);
            handler.is_ok_and(|handler| handler.handles > 0)
        });
        let keys = self.keys.not_freed().map(|key| key.to_string());
        let types = self.types.handles();
        let kind = |handle: &Handle| self.kinds.iter().any(|(kind, _)| kind == handle);
        let types = types.filter(|handle| !kind(handle)).map(|handle| {
            let name = self.type_names.get(&handle);
            match name {
                Some(name) => format!("{handle:#x} ({})", String::from_utf8_lossy(name)),
                None => format!("{handle:#x}"),
            }
        });
        let lines = [
            line("requests", &plain(process.open_requests().into_iter())),
            line("messages", &plain(process.open_messages().into_iter())),
            line("communicators", &named(process.made_communicators())),
            line("windows", &named(process.open_windows())),
            line("files", &named(process.open_files())),
            line("groups", &plain(self.groups.handles())),
            line("datatypes", &Vec::from_iter(types)),
            line("operations", &plain(self.operations.handles())),
            line("info objects", &plain(self.infos.handles())),
            line("error handlers", &plain(handlers)),
            line("attribute keys", &Vec::from_iter(keys)),
        ];
        let rank = process.rank();
        for line in lines.into_iter().flatten() {
            // One write, so that lines of several processes do not mix; a failure cannot be reported anywhere.
            let text = format!("causeway: rank {rank}: MPI_Finalize: {line}\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}
