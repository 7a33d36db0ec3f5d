//! How the launcher is asked to start programs (MPI 5.0 §11.8).

use crate::abi;
use crate::error::Result;
use crate::process::Process;
use crate::programs::Spawn;
use crate::start;

impl Process {
    /// Has the launcher start programs, which call at this port. Returns for each process that was asked for whether it was
    /// started, or the class of the error.
    pub(crate) fn start_all(&mut self, spawn: &Spawn, port: &str) -> Result<Vec<i32>> {
        let mut published = vec![(start::PARENT, port.to_owned())];
        if let Some(key) = &self.process_table.key {
            published.push((start::SECRET, key.digits().to_string()));
        }
        self.launcher.spawn(&spawn.programs, &published)?;
        let codes = spawn.programs.iter().flat_map(|program| {
            let started = (0..program.most).map(|at| at < program.count);
            started.map(|is_started| match is_started {
                true => abi::SUCCESS,
                false => abi::ERR_SPAWN,
            })
        });
        Ok(codes.collect())
    }
}
