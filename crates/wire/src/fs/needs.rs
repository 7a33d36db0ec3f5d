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
            // The metadata server checks these itself, or they say nothing of any object. A new operation must be in one of the
            // lists.
            Self::Lookup { .. }
            | Self::GetNode { .. }
            | Self::Create { .. }
            | Self::MakeDirectory { .. }
            | Self::SymbolicLink { .. }
            | Self::MakeSpecial { .. }
            | Self::HardLink { .. }
            | Self::Rename { .. }
            | Self::Exchange { .. }
            | Self::Unlink { .. }
            | Self::RemoveDirectory { .. }
            | Self::ReadDirectory { .. }
            | Self::SetAttributes { .. }
            | Self::Grow { .. }
            | Self::Truncate { .. }
            | Self::FinishTruncate { .. }
            | Self::Extend { .. }
            | Self::Filled { .. }
            | Self::WriteStuffed { .. }
            | Self::BeginUnstuff { .. }
            | Self::FinishUnstuff { .. }
            | Self::SetXattr { .. }
            | Self::RemoveXattr { .. }
            | Self::GetXattr { .. }
            | Self::ListXattrs { .. }
            | Self::Commit
            | Self::MetadataStatus
            | Self::Exist { .. }
            | Self::Check { .. }
            | Self::AddServer { .. }
            | Self::DrainServer { .. }
            | Self::AcceptServer { .. }
            | Self::EndSession
            | Self::Authorize
            | Self::Append { .. }
            | Self::BeginAppend { .. }
            | Self::EndAppend { .. }
            | Self::CancelAppend { .. }
            | Self::Lock { .. }
            | Self::Unlock { .. }
            | Self::TestLock { .. }
            | Self::CancelLock { .. }
            | Self::CloseFiles { .. }
            | Self::KeepFiles { .. }
            | Self::HoldLeases { .. }
            | Self::EndLeases { .. }
            | Self::ListStriped { .. }
            | Self::Paths { .. }
            | Self::Clock
            | Self::StorageStatus
            | Self::Hello { .. } => Needs::Nothing,
        }
    }
}
