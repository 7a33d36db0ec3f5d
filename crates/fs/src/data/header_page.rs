//! The first page of a datafile's file: its header, and the list of its written groups.

use std::fs::File;
use std::io;

use causeway_wire::codec::{Malformed, Reader, Wire as _};
use causeway_wire::datafile::{
    Algorithm, Binding, HEADER_BYTES, Header, State, WRITTEN_OFFSET, WrittenGroups, earlier_format,
};

use super::common::Common;
use super::disk::{put, read_full};
use super::fault::{Fault, Result};
use super::groups::GroupSpans;
use super::sums::BLOCK;
use super::types::Wait;

/// The content of the first page.
#[derive(Debug)]
pub(super) struct HeaderPage {
    pub(super) header: Header,
    written: std::result::Result<WrittenGroups, Malformed>,
}

impl HeaderPage {
    /// A file's first page; `None` if nothing was ever written to it.
    pub(super) fn read(file: &File) -> Result<Option<Self>> {
        let mut page = [0; BLOCK];
        let found = read_full(file, &mut page, 0, Wait::Allowed)?;
        if found == 0 {
            return Ok(None);
        }
        let bytes = &page[..found.min(HEADER_BYTES)];
        let header =
            Header::from_bytes(bytes).map_err(|malformed| match earlier_format(bytes) {
                Some(found) => Fault::Earlier { found },
                None => Fault::Header(malformed.to_string()),
            })?;
        let behind = page[..found].get(WRITTEN_OFFSET as usize..);
        let written = WrittenGroups::decode(&mut Reader::new(behind.unwrap_or_default()));
        Ok(Some(Self { header, written }))
    }

    /// The spans of written groups, none if the blocks have no sums. Fails if the list cannot be read, unless it was
    /// torn by a loss of power: then a scrub restores it.
    pub(super) fn written(self, common: &Common) -> Result<GroupSpans> {
        let header = self.header;
        if header.algorithm == Algorithm::None {
            return Ok(Vec::new());
        }
        let binding = binding(&header);
        match self.written {
            Ok(written) if written.binding == binding => Ok(written.spans),
            Err(_) if header.state == State::Dirty && header.boot != common.boot() => {
                tracing::warn!(
                    object = header.object.0,
                    "the list of written groups was torn when power was lost: until a scrub, blocks that are lost with \
                     their sums read as zeros"
                );
                Ok(Vec::new())
            }
            Ok(_) => Err(Fault::Header(
                "the list of written groups in it belongs to another datafile".to_owned(),
            )),
            Err(malformed) => Err(Fault::Header(malformed.to_string())),
        }
    }
}

/// The binding of the sums of a header's datafile.
pub(super) fn binding(header: &Header) -> Binding {
    Binding::new(header.file_system, header.generation, header.object)
}

/// Writes the first page of a new datafile: in one step, so that a kill leaves all of it or nothing.
pub(super) fn put_new(file: &File, header: &Header) -> io::Result<()> {
    let written = WrittenGroups {
        binding: binding(header),
        spans: Vec::new(),
    };
    let mut page = header.to_bytes();
    page.resize(WRITTEN_OFFSET as usize, 0);
    page.extend(written.to_bytes());
    put(file, &page, 0)
}
