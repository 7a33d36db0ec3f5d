//! Which operation needs which right.

use super::Operation;
use super::capability::{Needs, Rights};

impl Operation {
    /// The right that a server must see with the operation.
    pub fn needs(&self) -> Needs {
        let read_or_write = Rights::READ.with(Rights::WRITE);
        match *self {
            Self::Read { object, .. } | Self::FindData { object, .. } => {
                Needs::Object(object, Rights::READ)
            }
            Self::Write { object, .. }
            | Self::Seed { object, .. }
            | Self::TruncateData { object, .. }
            | Self::PunchData { object, .. }
            | Self::ReserveData { object, .. } => Needs::Object(object, Rights::WRITE),
            Self::Flush { object, .. } => Needs::Object(object, read_or_write),
            Self::StoredData { object } => Needs::Object(object, Rights::NONE),
            Self::Remove { .. }
            | Self::ListData { .. }
            | Self::CheckData { .. }
            | Self::RemoveOrphans { .. }
            | Self::Scrub { .. }
            | Self::AcceptData { .. } => Needs::Any(Rights::OPERATE),
            Self::Enroll { .. } | Self::EndCapabilities { .. } => Needs::Any(Rights::SERVE),
            _ => Needs::Nothing,
        }
    }
}
