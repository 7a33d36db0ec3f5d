//! Files of servers' directories.

use causeway_wire::fs::{Generation, Incarnation};
use causeway_wire::home;

pub(in crate::decoders) fn homes() -> Vec<Vec<u8>> {
    let identity = home::DirectoryIdentity {
        file_system: 99,
        server: "io1".into(),
        generation: Generation(5),
        metadata: true,
        io: true,
    };
    let enrollment = home::Enrollment {
        index: 1,
        incarnation: Incarnation(6),
    };
    [
        identity.to_text(),
        identity.part(home::Part::Metadata).to_text(),
        identity.part(home::Part::Data).to_text(),
        enrollment.to_text(),
        home::FailedSyncs { count: 2, boot: 7 }.to_text(),
        home::AppendLocksSetAside { below: 1000 }.to_text(),
        home::VersionsSetAside { below: 9 }.to_text(),
        home::LeasesGiven { below_ms: 30_000 }.to_text(),
    ]
    .map(String::into_bytes)
    .into()
}
