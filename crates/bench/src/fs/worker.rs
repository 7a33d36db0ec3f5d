//! One client process of `causeway bench fs`: connected once, then one order after the other, all
//! workers starting each at the same moment.

use std::path::PathBuf;
use std::time::Duration;

use causeway_bmi::Memory;
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::remote::{PIECE_BYTES, join};
use causeway_command::workers::Channel;
use causeway_fs::client::{Client, ClientOptions, CreateOptions, File};
use causeway_fs::config::Configuration;
use causeway_watch::process::monotonic_ns;
use causeway_wire::fs::Region;
use serde::{Deserialize, Serialize};

use super::content::Content;
use super::work::{Work, work};

/// The file system, and this worker's number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// Its configuration.
    pub(crate) config: PathBuf,
    /// The worker's number.
    pub(crate) number: usize,
}

/// An order to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Writes its part of a file.
    Write(Part),
    /// Reads its part of a file.
    Read(Part),
    /// Reads its part of a file and compares every byte.
    Compare(Part),
    /// Makes files.
    Create {
        directory: String,
        count: u64,
        size: usize,
        batch: bool,
    },
    /// Asks for the attributes of the files made.
    Stat { directory: String, count: u64 },
    /// Lists the directory with attributes.
    List { directory: String },
    /// Reads the files made, and compares their content.
    ReadFiles {
        directory: String,
        count: u64,
        size: usize,
    },
    /// Removes the files made.
    Unlink { directory: String, count: u64 },
    /// Writes a tile of a two-dimensional array.
    WriteTile(Tile),
    /// Reads a tile.
    ReadTile(Tile),
    /// Opens this number of connections to a server and keeps them.
    Connect { server: usize, count: usize },
    /// Opens this number of clients, each of which makes a file, and keeps them.
    Join { directory: String, count: usize },
    /// Has this many of these clients make this many files each, one client after the other.
    Change {
        directory: String,
        clients: usize,
        each: u64,
    },
    /// Closes all that was opened.
    Disconnect,
}

/// A contiguous part of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) path: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Use memory that servers on this host reach directly.
    pub(crate) shared: bool,
}

/// A tile of an array whose rows are `pitch` bytes long.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tile {
    pub(crate) path: String,
    /// First byte of the tile.
    pub(crate) origin: u64,
    /// Bytes of a row of the tile.
    pub(crate) width: u64,
    /// Rows of the tile.
    pub(crate) rows: u64,
    /// Bytes of a row of the array.
    pub(crate) pitch: u64,
    /// All rows in one list; otherwise a request for each row.
    pub(crate) list: bool,
}

struct Worker {
    number: usize,
    configuration: Configuration,
    client: Client,
    shared: Memory,
    private: Vec<u8>,
    /// The file of the order that is carried out next.
    file: Option<File>,
    open: Vec<Client>,
}

/// Runs a worker until the command closes its input.
pub(crate) fn run(assignment: &Assignment, channel: &mut Channel) -> Outcome {
    let configuration =
        Configuration::load(&assignment.config).doing(|| "reading the configuration".to_owned())?;
    let mut client = Client::connect(&configuration, ClientOptions::default())?;
    // The client connects to every server before anything is timed.
    for server in 0..configuration.servers.len() {
        client.ping(server)?;
    }
    let shared = client.allocate(PIECE_BYTES)?;
    let mut worker = Worker {
        number: assignment.number,
        configuration,
        client,
        shared,
        private: vec![0; PIECE_BYTES],
        file: None,
        open: Vec::new(),
    };
    work(&mut worker, channel)
}

impl Work for Worker {
    type Order = Order;

    /// Opens the file of an order, and fills the memory that is written.
    fn prepare(&mut self, order: &Order) -> Outcome {
        let path = match order {
            Order::Write(part) | Order::Read(part) | Order::Compare(part) => &part.path,
            Order::WriteTile(tile) | Order::ReadTile(tile) => &tile.path,
            _ => return Ok(()),
        };
        self.file = Some(self.client.open(path.as_bytes())?);
        if let Order::Write(part) = order {
            Content::fill(part.from, &mut self.private);
            if part.shared {
                self.shared.write_at(0, &self.private);
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, order: Order) -> Outcome<u64> {
        match order {
            Order::Write(part) => self.write(&part),
            Order::Read(part) => self.read(&part, false),
            Order::Compare(part) => self.read(&part, true),
            Order::WriteTile(tile) => self.tile(&tile, true),
            Order::ReadTile(tile) => self.tile(&tile, false),
            Order::Create {
                directory,
                count,
                size,
                batch,
            } => self.create(&directory, count, size, batch),
            Order::Stat { directory, count } => self.stat(&directory, count),
            Order::List { directory } => self.list(&directory),
            Order::ReadFiles {
                directory,
                count,
                size,
            } => self.read_files(&directory, count, size),
            Order::Unlink { directory, count } => self.unlink(&directory, count),
            Order::Connect { server, count } => self.connect(server, count),
            Order::Join { directory, count } => self.join(&directory, count),
            Order::Change {
                directory,
                clients,
                each,
            } => self.change(&directory, clients, each),
            Order::Disconnect => {
                self.open.clear();
                Ok(0)
            }
        }
    }
}

impl Worker {
    /// The file that was opened for this order.
    fn opened(&mut self) -> Outcome<File> {
        let file = self.file.take();
        file.ok_or_else(|| Failure::new("measuring", "the file has not been opened"))
    }

    fn write(&mut self, part: &Part) -> Outcome<u64> {
        let file = &mut self.opened()?;
        let mut offset = part.from;
        let mut operations = 0;
        while offset < part.to {
            let len = piece(part.to - offset);
            if part.shared {
                for (at, stamp) in Content::stamps(offset, len) {
                    self.shared.write_at(at, &stamp);
                }
                let region = Region {
                    offset,
                    len: len as u64,
                };
                self.client
                    .write_list(file, &[region], &[self.shared.slice(0..len)])?;
            } else {
                for (at, stamp) in Content::stamps(offset, len) {
                    if let Some(place) = self.private.get_mut(at..at + stamp.len()) {
                        place.copy_from_slice(&stamp);
                    }
                }
                let bytes = self.private.get(..len).unwrap_or_default();
                self.client.write_at(file, offset, bytes)?;
            }
            offset += len as u64;
            operations += 1;
        }
        Ok(operations)
    }

    fn read(&mut self, part: &Part, compare: bool) -> Outcome<u64> {
        let file = &mut self.opened()?;
        let mut offset = part.from;
        let mut operations = 0;
        while offset < part.to {
            let len = piece(part.to - offset);
            let got = if part.shared {
                let region = Region {
                    offset,
                    len: len as u64,
                };
                let into = [self.shared.slice(0..len)];
                self.client.read_list(file, &[region], &into)?
            } else {
                let into = self.private.get_mut(..len).unwrap_or_default();
                self.client.read_at(file, offset, into)? as u64
            };
            if got != len as u64 {
                let what = format!("reading {} at {offset}", part.path);
                return Err(Failure::new(
                    what,
                    format!("{got} bytes came instead of {len}"),
                ));
            }
            if compare {
                self.compare(part, offset, len)?;
            }
            offset += len as u64;
            operations += 1;
        }
        Ok(operations)
    }

    fn compare(&mut self, part: &Part, offset: u64, len: usize) -> Outcome {
        let bytes = self.private.get_mut(..len).unwrap_or_default();
        if part.shared {
            self.shared.read_at(0, bytes);
        }
        match Content::first_difference(offset, bytes) {
            None => Ok(()),
            Some(at) => {
                let what = format!("comparing {}", part.path);
                Err(Failure::new(
                    what,
                    format!("byte {at} is not what was written"),
                ))
            }
        }
    }

    fn name(&self, directory: &str, index: u64) -> Vec<u8> {
        join(
            directory.as_bytes(),
            format!("c{}-{index:07}", self.number).as_bytes(),
        )
    }

    fn create(&mut self, directory: &str, count: u64, size: usize, batch: bool) -> Outcome<u64> {
        let mut content = vec![0; size];
        Content::fill(0, &mut content);
        let options = CreateOptions {
            exclusive: true,
            content,
            ..CreateOptions::default()
        };
        if batch {
            let files: Vec<_> = (0..count)
                .map(|index| (self.name(directory, index), options.clone()))
                .collect();
            for result in self.client.create_many(&files) {
                result?;
            }
            return Ok(count);
        }
        for index in 0..count {
            let path = self.name(directory, index);
            self.client.create(&path, &options)?;
        }
        Ok(count)
    }

    fn stat(&mut self, directory: &str, count: u64) -> Outcome<u64> {
        for index in 0..count {
            let path = self.name(directory, index);
            self.client.stat(&path, false)?;
        }
        Ok(count)
    }

    fn list(&mut self, directory: &str) -> Outcome<u64> {
        let node = self.client.stat(directory.as_bytes(), true)?;
        let mut count = 0;
        causeway_command::remote::each_entry(
            &mut self.client,
            (node.object, directory.as_bytes()),
            |_, entry| {
                count += u64::from(entry.attributes.is_some());
                Ok(())
            },
        )?;
        Ok(count)
    }

    fn read_files(&mut self, directory: &str, count: u64, size: usize) -> Outcome<u64> {
        let mut wanted = vec![0; size];
        Content::fill(0, &mut wanted);
        let mut bytes = vec![0; size + 1];
        for index in 0..count {
            let path = self.name(directory, index);
            let mut file = self.client.open_once(&path)?;
            let got = self.client.read_at(&mut file, 0, &mut bytes)?;
            if bytes.get(..got) != Some(&wanted) {
                let what = format!("comparing {}", causeway_command::output::printable(&path));
                return Err(Failure::new(
                    what,
                    "the file's content is not what was written",
                ));
            }
        }
        Ok(count)
    }

    fn unlink(&mut self, directory: &str, count: u64) -> Outcome<u64> {
        for index in 0..count {
            let path = self.name(directory, index);
            self.client.unlink(&path)?;
        }
        Ok(count)
    }

    /// Writes or reads a tile. Bytes that are read are compared in any case: memory speed is not what tiles
    /// are about.
    fn tile(&mut self, tile: &Tile, write: bool) -> Outcome<u64> {
        let file = &mut self.opened()?;
        let bytes = usize::try_from(tile.width * tile.rows).doing(|| "making a tile".to_owned())?;
        let mut wanted = vec![0; bytes];
        Content::fill(tile.origin, &mut wanted);
        let memory = self.client.allocate(bytes)?;
        if write {
            memory.write_at(0, &wanted);
        }
        let regions: Vec<Region> = (0..tile.rows)
            .map(|row| Region {
                offset: tile.origin + row * tile.pitch,
                len: tile.width,
            })
            .collect();
        let mut transfer = |regions: &[Region], part: Memory| -> Outcome {
            match write {
                true => self.client.write_list(file, regions, &[part])?,
                false => drop(self.client.read_list(file, regions, &[part])?),
            }
            Ok(())
        };
        let started = monotonic_ns();
        if tile.list {
            transfer(&regions, memory.clone())?;
        } else {
            let width = usize::try_from(tile.width).unwrap_or(0);
            for (row, region) in regions.iter().enumerate() {
                transfer(&[*region], memory.slice(row * width..(row + 1) * width))?;
            }
        }
        let took = monotonic_ns() - started;
        if !write && memory.to_vec() != wanted {
            let what = format!("comparing a tile of {}", tile.path);
            return Err(Failure::new(
                what,
                "the tile's content is not what was written",
            ));
        }
        // Comparing and making the lists are not part of the time.
        Ok(took)
    }

    fn connect(&mut self, server: usize, count: usize) -> Outcome<u64> {
        for _ in 0..count {
            let mut client = self.another()?;
            client.ping(server)?;
            self.open.push(client);
        }
        Ok(count as u64)
    }

    /// One client of many, which are used one after the other.
    fn another(&self) -> Outcome<Client> {
        let patient = Configuration {
            timeout: Duration::from_secs(60),
            ..self.configuration.clone()
        };
        Ok(Client::connect(&patient, ClientOptions::default())?)
    }

    fn join(&mut self, directory: &str, count: usize) -> Outcome<u64> {
        let options = CreateOptions::default();
        for index in 0..count as u64 {
            let mut client = self.another()?;
            client.create(self.name(directory, index), &options)?;
            self.open.push(client);
        }
        Ok(count as u64)
    }

    fn change(&mut self, directory: &str, clients: usize, each: u64) -> Outcome<u64> {
        let options = CreateOptions::default();
        let (first, count) = (self.open.len() as u64, clients.min(self.open.len()) as u64);
        for round in 0..each {
            for index in 0..count {
                let path = self.name(directory, first + round * count + index);
                if let Some(client) = self.open.get_mut(index as usize) {
                    client.create(&path, &options)?;
                }
            }
        }
        Ok(count * each)
    }
}

fn piece(left: u64) -> usize {
    usize::try_from(left)
        .unwrap_or(PIECE_BYTES)
        .min(PIECE_BYTES)
}
