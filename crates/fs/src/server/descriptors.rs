//! Reads of datafiles that clients on this host carry out themselves.
//!
//! A client whose user may read a datafile's file as a file of this host opens it by the server's descriptor, and then copies each byte once
//! instead of twice ([`client::direct`](crate::client)). The server says for each read of which blocks, by sending their sums: a capability that has ended
//! ends these reads, too. It opens nothing to anybody: the kernel checks what the client's user may open.

use causeway_bmi::{Addr, Identity};
use causeway_wire::datafile::BLOCK_BYTES;
use causeway_wire::fs::{Failure, ObjectId, Regions, ReplyBody};

use super::callers::is_operator;
use super::error::storage_failure;
use super::events::Loop;
use super::io::{MAX_SUMS, one_of_blocks};
use crate::data::Fault;

impl Loop {
    /// By which descriptor a datafile is open, for a client on this host that can open its file.
    pub(super) fn find_descriptor(
        &self,
        from: Addr,
        object: ObjectId,
    ) -> Result<ReplyBody, Failure> {
        let is_here = matches!(
            self.bmi.identity(from),
            Some(Identity::Local { uid, .. }) if is_operator(uid)
        );
        let file = self.store()?.find(object);
        file.and_then(
            |file| match file.filter(|file| is_here && file.has_sums()) {
                Some(file) => Ok(Some(file.descriptor()?)),
                None => Ok(None),
            },
        )
        .map(ReplyBody::Descriptor)
        .map_err(|fault| storage_failure("finding", object, &fault))
    }

    /// The stored sums of blocks that the client reads itself.
    pub(super) fn stored_sums(
        &mut self,
        object: ObjectId,
        at_least: u64,
        regions: &Regions,
    ) -> Result<ReplyBody, Failure> {
        let region = one_of_blocks(regions);
        let file = self.store()?.find(object);
        let found = file.and_then(|file| match (file, region) {
            (Some(file), Some(region)) => {
                let sums = file.stored_sums(region, at_least, MAX_SUMS as usize)?;
                Ok((sums, file.size()?))
            }
            (None, _) if at_least > 0 => Err(Fault::Absent { wanted: at_least }),
            _ => Ok((Vec::new(), 0)),
        });
        let (sums, size) = found.map_err(|error| storage_failure("reading", object, &error))?;
        self.read += sums.len() as u64 * BLOCK_BYTES;
        self.clients_copy = true;
        Ok(ReplyBody::Transferred {
            bytes: 0,
            size,
            copy_us: 0,
            storage_us: 0,
            inline: Vec::new(),
            sums,
        })
    }
}
