//! The objects of a process that the program has not freed.

use crate::communicator::Communicator;
use crate::process::Process;
use crate::window::state::Window;

impl Process {
    /// The communicators that the program has made, by handle, with their names.
    pub fn made_communicators(&self) -> Vec<(usize, String)> {
        let name = |handle| {
            let of = self.communicators.get(handle).map(Communicator::name);
            String::from_utf8_lossy(of.unwrap_or_default()).into_owned()
        };
        let all = self.communicators.handles();
        let windows = self.windows.open().map(|(_, window)| window.communicator());
        let files = self
            .files
            .handles()
            .filter_map(|handle| self.files.get(handle).ok());
        // Those of windows and files are not the program's.
        let inner = Vec::from_iter(windows.chain(files.map(|file| file.communicator)));
        let all = all.filter(|handle| self.parent != Some(*handle) && !inner.contains(handle));
        all.map(|handle| (handle, name(handle))).collect()
    }

    /// The windows that are not freed, by handle, with their names.
    pub fn open_windows(&self) -> Vec<(usize, String)> {
        let name = |window: &Window| String::from_utf8_lossy(window.name()).into_owned();
        let all = self.windows.open();
        all.map(|(handle, window)| (handle, name(window))).collect()
    }

    /// The files that are not closed, by handle, with their names.
    pub fn open_files(&self) -> Vec<(usize, String)> {
        let name = |handle| {
            let file = self.files.get(handle).ok();
            file.map_or_else(String::new, |file| file.name.display().to_string())
        };
        let all = self.files.handles();
        all.map(|handle| (handle, name(handle))).collect()
    }

    /// Messages that were matched by a probe and not received.
    pub fn open_messages(&self) -> Vec<usize> {
        self.messages.handles().collect()
    }
}
