//! The right that each operation needs.

use super::Operation;
use super::capability::{Needs, Rights};

impl Operation {
    /// The right that a request for the operation must prove.
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
            | Self::ListStriped { .. }
            | Self::Paths { .. }
            | Self::Clock
            | Self::StorageStatus
            | Self::Hello { .. } => Needs::Nothing,
        }
    }

    /// Whether only those who operate the file system ask for it: its servers, and whoever adds servers, checks, repairs and moves files.
    /// A new operation must be in one of the lists.
    pub fn is_for_operators(&self) -> bool {
        match *self {
            Self::Remove { .. }
            | Self::ListData { .. }
            | Self::CheckData { .. }
            | Self::RemoveOrphans { .. }
            | Self::Scrub { .. }
            | Self::AcceptData { .. }
            | Self::Enroll { .. }
            | Self::EndCapabilities { .. }
            | Self::Exist { .. }
            | Self::Check { .. }
            | Self::AddServer { .. }
            | Self::DrainServer { .. }
            | Self::AcceptServer { .. }
            | Self::Authorize
            | Self::ListStriped { .. }
            | Self::Paths { .. } => true,
            Self::Read { .. }
            | Self::FindData { .. }
            | Self::Write { .. }
            | Self::Seed { .. }
            | Self::TruncateData { .. }
            | Self::PunchData { .. }
            | Self::ReserveData { .. }
            | Self::Flush { .. }
            | Self::StoredData { .. }
            | Self::Lookup { .. }
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
            | Self::Lock { .. }
            | Self::Unlock { .. }
            | Self::TestLock { .. }
            | Self::CancelLock { .. }
            | Self::CloseFiles { .. }
            | Self::KeepFiles { .. }
            | Self::Clock
            | Self::StorageStatus
            | Self::Hello { .. } => false,
        }
    }
}
