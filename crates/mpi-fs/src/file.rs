//! An open file on the parallel file system.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_fs::Error;
use causeway_fs::client::{Allocation, Client, File};
use causeway_mpi::io::storage::{Extent, Lock, Storage};
use causeway_sys::memory::Memory;
use causeway_wire::codec::Wire;
use causeway_wire::fs::{Body, Errno, Node, ObjectId, Region};

use crate::connection::{Connection, as_io};
use crate::hints;

/// Most extents in one list, which goes to each server in one request.
const EXTENTS: usize = 1 << 16;
/// The client library names up to 256 spans of memory in a request; data in more spans are packed there anyway.
const LEAST_FRAGMENT: u64 = 4096;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct FsFile {
    connection: Arc<Connection>,
    path: Vec<u8>,
    object: ObjectId,
    /// Locked only while the connection's client is locked.
    file: Mutex<File>,
}

fn regions(extents: &[Extent]) -> Vec<Region> {
    let region = |extent: &Extent| Region {
        offset: extent.offset,
        len: extent.len,
    };
    extents.iter().map(region).collect()
}

/// The node that another process of the program has sent, which has opened the file.
pub(crate) fn node_of(told: &[u8]) -> io::Result<Node> {
    Node::from_bytes(told).map_err(|error| {
        let text = format!("the file's node from the process with rank 0: {error}");
        io::Error::new(ErrorKind::InvalidData, text)
    })
}

impl FsFile {
    pub(crate) fn new(connection: Arc<Connection>, path: &[u8], file: File) -> Self {
        Self {
            connection,
            path: path.to_vec(),
            object: file.node.object,
            file: Mutex::new(file),
        }
    }

    fn call<T>(
        &self,
        work: impl FnOnce(&mut Client, &mut File) -> Result<T, Error>,
    ) -> io::Result<T> {
        let done = self.connection.call(|client| {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            work(client, &mut file)
        });
        done.map_err(|error| {
            as_io(&Error {
                subject: String::from_utf8_lossy(&self.path).into_owned(),
                ..error
            })
        })
    }
}

impl Storage for FsFile {
    /// Reads straight into the memory. When it returns, no server writes there any more, even if it has failed.
    fn read(&self, extents: &[Extent], into: &[Memory]) -> io::Result<u64> {
        let into: Vec<Memory> = into.iter().map(Memory::counted_apart).collect();
        self.call(|client, file| client.read_lent(file, &regions(extents), &into))
    }

    fn write(&self, extents: &[Extent], from: &[Memory]) -> io::Result<()> {
        self.call(|client, file| client.write_list(file, &regions(extents), from))
    }

    fn size(&self) -> io::Result<u64> {
        self.call(|client, _| Ok(client.stat_object(self.object)?.attributes.size))
    }

    fn resize(&self, size: u64) -> io::Result<()> {
        self.call(|client, file| client.truncate(file, size))
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        if size == 0 {
            return Ok(());
        }
        let whole = Region {
            offset: 0,
            len: size,
        };
        self.call(|client, file| {
            match client.allocate_part(file, whole, Allocation::Reserve, false) {
                // Servers of earlier builds cannot reserve room: writes take it.
                Err(error) if error.errno == Errno::EOPNOTSUPP => client.grow(file, size),
                done => done,
            }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.call(Client::fsync)
    }

    fn small_piece(&self, _writes: bool) -> u64 {
        0
    }

    fn least_fragment(&self) -> u64 {
        LEAST_FRAGMENT
    }

    fn extents_at_a_time(&self) -> usize {
        EXTENTS
    }

    /// The encoded node, so that no other process has to request it from the metadata server.
    fn told(&self) -> Vec<u8> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut node = file.node.clone();
        if let Body::Stuffed { content, .. } = &mut node.body {
            // The content is read when it is needed, as other processes may have written by then.
            *content = None;
        }
        node.to_bytes()
    }

    /// Takes over the node: a write by a node from before the last truncation would have to be repeated.
    fn learn(&self, told: &[u8]) -> io::Result<()> {
        let node = node_of(told)?;
        if node.object != self.object {
            let text = "another process has sent the node of another file";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.node = node;
        Ok(())
    }

    fn hints(&self) -> Vec<(&'static str, String)> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match &file.node.body {
            Body::Striped { distribution, .. } | Body::Stuffed { distribution, .. } => {
                hints::of(distribution)
            }
            Body::Directory(_) | Body::Link(_) | Body::Special { .. } => Vec::new(),
        }
    }

    fn has_locks(&self) -> bool {
        false
    }

    fn lock(&self, _exclusive: bool) -> io::Result<Box<dyn Lock + '_>> {
        Err(ErrorKind::Unsupported.into())
    }
}
