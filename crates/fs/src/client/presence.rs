//! Whether stored data that a server lacks is lost, or was removed on purpose.

use causeway_wire::fs::{Body, Errno, Operation, ReplyBody};

use super::call_error::CallError;
use super::connection::Client;
use super::file::File;
use super::file::version;
use super::nodes::node;

impl Client {
    /// Returns the servers' replies. If a server lacks data, the file's node decides: if the file was removed,
    /// that is the error; `None` if it was truncated meanwhile, which `file` then shows; otherwise the data is lost.
    pub(super) fn unless_missing(
        &mut self,
        file: &mut File,
        results: Vec<Result<ReplyBody, CallError>>,
    ) -> Result<Option<Vec<ReplyBody>>, CallError> {
        let mut replies = Vec::with_capacity(results.len());
        let mut missing = None;
        for result in results {
            match result {
                Ok(reply) => replies.push(reply),
                Err(error) if error.errno == Errno::MISSING => {
                    missing.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(missing) = missing else {
            return Ok(Some(replies));
        };
        let known = version(&file.node);
        self.refresh_node(file)?;
        match version(&file.node) == known {
            true => Err(lost(missing)),
            false => Ok(None),
        }
    }

    /// Handles a seed that found another content in place: harmless if another client has finished moving the content and has written
    /// since.
    pub(super) fn check_unstuffed(
        &mut self,
        file: &mut File,
        error: CallError,
    ) -> Result<(), CallError> {
        self.refresh_node(file)?;
        match file.node.body {
            Body::Stuffed { .. } => Err(lost(error)),
            _ => Ok(()),
        }
    }

    pub(super) fn refresh_node(&mut self, file: &mut File) -> Result<(), CallError> {
        let operation = Operation::GetNode {
            object: file.node.object,
            content: false,
        };
        file.update_node(self.query(operation).and_then(node)?)?;
        Ok(())
    }
}

/// The error that programs get for lost data.
fn lost(error: CallError) -> CallError {
    CallError {
        errno: Errno::EIO,
        ..error
    }
}
