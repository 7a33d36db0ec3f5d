//! Files: opening, closing, and their settings (MPI 5.0 §14.2, §14.3, §14.5, §14.6).

use std::ffi::{c_char, c_int, c_void};

use causeway_mpi::Process;
use causeway_mpi::abi;
use causeway_mpi::caller::Caller;
use causeway_mpi::datatype::Datatype;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::io::file::File;
use causeway_mpi::io::view::{Representation, View};
use causeway_mpi::io::{opening, setting};
use causeway_mpi::process::Active;
use causeway_mpi::status::Status;

pub(crate) use crate::errors::comm_create_errhandler as file_create_errhandler;
use crate::errors::{hold, release};
use crate::library::{complete, enter, with};
use crate::types::{Callback, Handle, read_text, write_text};

/// The caller by which this surface carries out operations of several steps, with the name of the program's call.
pub(crate) struct Surface(pub(crate) &'static str);

impl Caller for Surface {
    fn name(&self) -> &'static str {
        self.0
    }

    fn with<R>(&mut self, step: impl FnOnce(&mut Process) -> Result<R>) -> Result<R> {
        with(|process, _| step(process))
    }

    fn wait(&mut self, active: Active) -> Result<Status> {
        complete(active)
    }
}

/// Reads something of an open file.
fn ask<R>(fh: Handle, question: impl FnOnce(&File) -> Result<R>) -> Result<R> {
    with(|process, _| question(process.file(fh)?))
}

pub(crate) unsafe fn file_open(
    comm: Handle,
    filename: *const c_char,
    amode: c_int,
    info: Handle,
    fh: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = opening::name_of(unsafe { read_text(filename, "filename") }?);
    let (hints, handler) = enter(|library| {
        // The other processes hear of an info object that is none.
        Ok((crate::info::copy_of(library, info), library.file_handler))
    })?;
    hold(handler)?;
    let opened = opening::open(
        &mut Surface("MPI_File_open"),
        comm,
        &name,
        amode,
        &hints,
        handler,
    );
    if opened.is_err() {
        release(handler)?;
    }
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { fh.write(opened?) };
    Ok(())
}

pub(crate) unsafe fn file_close(fh: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handler = opening::close(&mut Surface("MPI_File_close"), fh.read())?;
        fh.write(abi::FILE_NULL);
        release(handler)
    }
}

pub(crate) unsafe fn file_delete(filename: *const c_char, info: Handle) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = opening::name_of(unsafe { read_text(filename, "filename") }?);
    let hints = enter(|library| crate::info::copy_of(library, info))?;
    opening::delete(&mut Surface("MPI_File_delete"), &name, &hints)
}

pub(crate) unsafe fn file_get_amode(fh: Handle, amode: *mut c_int) -> Result<()> {
    let mode = ask(fh, |file| Ok(file.mode()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { amode.write(mode) };
    Ok(())
}

pub(crate) unsafe fn file_get_atomicity(fh: Handle, flag: *mut c_int) -> Result<()> {
    let is = ask(fh, |file| Ok(file.is_atomic()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { flag.write(is.into()) };
    Ok(())
}

pub(crate) unsafe fn file_set_atomicity(fh: Handle, flag: c_int) -> Result<()> {
    setting::set_atomicity(&mut Surface("MPI_File_set_atomicity"), fh, flag != 0)
}

pub(crate) unsafe fn file_get_group(fh: Handle, group: *mut Handle) -> Result<()> {
    let found = ask(fh, |file| Ok(file.group().clone()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::group::insert(found, group) }
}

pub(crate) unsafe fn file_get_info(fh: Handle, info_used: *mut Handle) -> Result<()> {
    let info = ask(fh, File::info)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { crate::info::insert(info, info_used) }
}

pub(crate) unsafe fn file_set_info(fh: Handle, info: Handle) -> Result<()> {
    let hints = enter(|library| crate::info::copy_of(library, info));
    setting::set_info(&mut Surface("MPI_File_set_info"), fh, hints)
}

macro_rules! numbers {
    ($($name:ident($($argument:ident: $ty:ty),*) = $question:expr;)*) => {$(
        pub(crate) unsafe fn $name(fh: Handle, $($argument: $ty,)* into: *mut i64) -> Result<()> {
            let question = $question;
            let found: u64 = ask(fh, |file| question(file, $($argument),*))?;
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { into.write(found as i64) };
            Ok(())
        }
    )*};
}

numbers! {
    file_get_position() = File::pointer;
    file_get_byte_offset(offset: i64) = File::byte_offset;
}

pub(crate) unsafe fn file_get_size(fh: Handle, size: *mut i64) -> Result<()> {
    let found = setting::size(&mut Surface("MPI_File_get_size"), fh)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { size.write(found as i64) };
    Ok(())
}

pub(crate) unsafe fn file_get_position_shared(fh: Handle, offset: *mut i64) -> Result<()> {
    let found = setting::shared_position(&mut Surface("MPI_File_get_position_shared"), fh)?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { offset.write(found as i64) };
    Ok(())
}

pub(crate) unsafe fn file_get_type_extent(
    fh: Handle,
    datatype: Handle,
    extent: *mut i64,
) -> Result<()> {
    let datatype = enter(|library| library.datatype(datatype).cloned())?;
    let found = ask(fh, |file| file.extent_of(&datatype))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { extent.write(found) };
    Ok(())
}

pub(crate) unsafe fn file_set_size(fh: Handle, size: i64) -> Result<()> {
    setting::set_size(&mut Surface("MPI_File_set_size"), fh, size, false)
}

pub(crate) unsafe fn file_preallocate(fh: Handle, size: i64) -> Result<()> {
    setting::set_size(&mut Surface("MPI_File_preallocate"), fh, size, true)
}

pub(crate) unsafe fn file_sync(fh: Handle) -> Result<()> {
    setting::sync(&mut Surface("MPI_File_sync"), fh)
}

pub(crate) unsafe fn file_seek(fh: Handle, offset: i64, whence: c_int) -> Result<()> {
    setting::seek(&mut Surface("MPI_File_seek"), fh, offset, whence)
}

pub(crate) unsafe fn file_seek_shared(fh: Handle, offset: i64, whence: c_int) -> Result<()> {
    setting::seek_shared(&mut Surface("MPI_File_seek_shared"), fh, offset, whence)
}

pub(crate) unsafe fn file_set_view(
    fh: Handle,
    disp: i64,
    etype: Handle,
    filetype: Handle,
    datarep: *const c_char,
    info: Handle,
) -> Result<()> {
    let hints = enter(|library| crate::info::copy_of(library, info));
    // The other processes hear of what is wrong with these arguments, and do not wait for this one.
    let view = (|| {
        hints.as_ref().map_err(Error::clone)?;
        // SAFETY: the caller's string, as MPI has it.
        let representation = unsafe { read_text(datarep, "datarep") }?;
        let (etype, filetype, representation) = enter(|library| {
            let representation = library.representation(representation)?;
            let (etype, filetype) = (library.datatype(etype)?, library.datatype(filetype)?);
            Ok((etype.clone(), filetype.clone(), representation))
        })?;
        let disp = setting::displacement(&mut Surface("MPI_File_set_view"), fh, disp)?;
        let is_written = ask(fh, |file| Ok(file.mode() & abi::MODE_RDONLY == 0))?;
        View::new(disp, etype, filetype, representation, is_written)
    })();
    setting::set_view(&mut Surface("MPI_File_set_view"), fh, view)?;
    match (info, hints) {
        (abi::INFO_NULL, _) | (_, Err(_)) => Ok(()),
        (_, Ok(hints)) => with(|process, _| {
            process.file_mut(fh)?.take_hints(&hints);
            Ok(())
        }),
    }
}

/// A handle of a datatype for the program: a new one, unless it is predefined.
fn handle_of(datatype: Datatype) -> Result<Handle> {
    match datatype.basic() {
        Some(basic) => Ok(basic as Handle),
        None => enter(|library| library.types.insert(datatype)),
    }
}

pub(crate) unsafe fn file_get_view(
    fh: Handle,
    disp: *mut i64,
    etype: *mut Handle,
    filetype: *mut Handle,
    datarep: *mut c_char,
) -> Result<()> {
    let view = ask(fh, |file| Ok(file.view().clone()))?;
    let (unit, tile) = (handle_of(view.etype)?, handle_of(view.filetype)?);
    let most = abi::MAX_DATAREP_STRING as usize;
    let name = view.representation.name().as_bytes();
    // SAFETY: the caller's pointers, as MPI has it; it obliges the caller to have so much room for the name.
    unsafe {
        disp.write(view.displacement as i64);
        etype.write(unit);
        filetype.write(tile);
        write_text(name, datarep, most, std::ptr::null_mut());
    }
    Ok(())
}

impl crate::library::Library {
    /// The representation of a name that the program gives.
    fn representation(&self, name: &[u8]) -> Result<Representation> {
        let shown = String::from_utf8_lossy(name);
        let why = match Representation::named(name) {
            Some(found) => return Ok(found),
            None if self.representations.contains(name) => {
                "representations of the program's are not supported in views"
            }
            None => "there is no such representation",
        };
        Err(Error::new(
            abi::ERR_UNSUPPORTED_DATAREP,
            format!("{shown}: {why}"),
        ))
    }
}

pub(crate) unsafe fn register_datarep(
    datarep: *const c_char,
    _read: Callback,
    _write: Callback,
    extent: Callback,
    _extra: *mut c_void,
) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let name = unsafe { read_text(datarep, "datarep") }?;
    if name.is_empty() || name.len() >= abi::MAX_DATAREP_STRING as usize {
        let text = format!("a name of {} bytes", name.len());
        return Err(Error::new(abi::ERR_ARG, text));
    }
    if extent.is_null() {
        let text = "the function that returns extents is NULL";
        return Err(Error::new(abi::ERR_ARG, text));
    }
    enter(|library| {
        let is_new =
            Representation::named(name).is_none() && library.representations.insert(name.to_vec());
        match is_new {
            true => Ok(()),
            false => {
                let text = String::from_utf8_lossy(name);
                Err(Error::new(abi::ERR_DUP_DATAREP, text))
            }
        }
    })
}

pub(crate) use register_datarep as register_datarep_c;
