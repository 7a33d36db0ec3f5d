//! The right that each operation needs.

use super::Operation;
use super::capability::{Needs, Rights};

impl Operation {
    /// The right that a request for the operation must prove.
    pub fn needs(&self) -> Needs {
        let read_or_write = Rights::READ.with(Rights::WRITE);
        match *self {
            Self::Read { object, .. }
            | Self::FindData { object, .. }
            | Self::FindDescriptor { object } => Needs::Object(object, Rights::READ),
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
            Self::Exist { .. }
            | Self::Check { .. }
            | Self::AddServer { .. }
            | Self::DrainServer { .. }
            | Self::AcceptServer { .. }
            | Self::Authorize
            | Self::ListStriped { .. }
            | Self::Paths { .. } => Needs::Operator,
            // The metadata server checks these itself, or they concern no object. A new operation
            // must be in one of the lists.
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
            | Self::EndSession
            | Self::Append { .. }
            | Self::BeginAppend { .. }
            | Self::EndAppend { .. }
            | Self::CancelAppend { .. }
            | Self::CheckAppendLock { .. }
            | Self::MovePointer { .. }
            | Self::Lock { .. }
            | Self::Unlock { .. }
            | Self::TestLock { .. }
            | Self::CancelLock { .. }
            | Self::CloseFiles { .. }
            | Self::KeepFiles { .. }
            | Self::HoldLeases { .. }
            | Self::EndLeases { .. }
            | Self::Clock
            | Self::StorageStatus
            | Self::Hello { .. } => Needs::Nothing,
        }
    }

    /// Whether the operation is for operators and servers alone: adding servers, checking, repairing and moving files.
    pub fn is_for_operators(&self) -> bool {
        matches!(self.needs(), Needs::Any(_) | Needs::Operator)
    }
}
