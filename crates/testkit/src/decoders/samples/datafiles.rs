//! Contents of datafiles and the files beside them: headers, the history of writes, and which groups were written.

use causeway_wire::codec::Wire;
use causeway_wire::fs::{Generation, Incarnation, ObjectId};

pub(in crate::decoders) fn datafile_headers() -> Vec<Vec<u8>> {
    use causeway_wire::datafile::{Algorithm, Header, State, Trust};
    let header = Header {
        object: ObjectId(42),
        file_system: 7,
        generation: Generation(8),
        incarnation: Incarnation(9),
        version: 1,
        size: 123_456,
        algorithm: Algorithm::Crc32c,
        state: State::Clean,
        trust: Trust::Latest,
        boot: 10,
        run: 11,
    };
    let dirty = Header {
        state: State::Dirty,
        trust: Trust::Unsynced,
        algorithm: Algorithm::None,
        ..header
    };
    vec![header.to_bytes(), dirty.to_bytes()]
}

pub(in crate::decoders) fn history() -> Vec<Vec<u8>> {
    use causeway_wire::datafile::{Extent, HistoryEntry, HistoryHeader, WriteId};
    let entry = |extent| HistoryEntry {
        position: 1,
        write: WriteId::new(2, 3),
        object: ObjectId(42),
        at: 4,
        extent,
    };
    let steps = Extent::Steps {
        offset: 1,
        len: 2,
        step: 3,
        count: 4,
    };
    let header = HistoryHeader {
        file_system: 7,
        generation: Generation(8),
        boot: 9,
        since: 10,
    };
    vec![
        header.to_bytes(),
        entry(steps).to_bytes(),
        entry(Extent::Within { offset: 1, end: 9 }).to_bytes(),
        entry(Extent::From { offset: 5 }).to_bytes(),
    ]
}

pub(in crate::decoders) fn written_groups() -> Vec<Vec<u8>> {
    use causeway_wire::datafile::{Binding, NEAR_GROUPS, WrittenGroups};
    let written = |spans| WrittenGroups {
        binding: Binding::new(7, Generation(8), ObjectId(42)),
        spans,
    };
    let mixed = vec![
        (0, 3),
        (9, 10),
        (NEAR_GROUPS - 2, NEAR_GROUPS + 5),
        (1 << 40, 1 << 41),
    ];
    vec![written(Vec::new()).to_bytes(), written(mixed).to_bytes()]
}
