//! The predefined types (MPI 5.0 §3.2.2, §19.1 and the ABI's table of handles).

/// How one element is represented in memory.
///
/// The number behind a letter counts bits; for complex numbers those of one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Scalar {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
    /// C's `long double`, 16 bytes of memory.
    FLong,
    F128,
    /// Two [`Scalar::F16`].
    C16,
    C32,
    C64,
    /// Two [`Scalar::FLong`].
    CLong,
    C128,
    /// A truth value: a C `_Bool`, or a Fortran `LOGICAL`.
    L8,
    L16,
    L32,
    L64,
    L128,
    /// A printable character.
    Char,
    /// A wide printable character.
    Wchar,
    /// Eight bits without a meaning.
    Byte,
    /// A byte of what `MPI_Pack` has written.
    Packed,
}

impl Scalar {
    /// Size in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::L8 | Self::Char | Self::Byte | Self::Packed => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::L16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::L32 | Self::C16 | Self::Wchar => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::L64 | Self::C32 => 8,
            Self::I128 | Self::FLong | Self::F128 | Self::L128 | Self::C64 => 16,
            Self::CLong | Self::C128 => 32,
        }
    }

    /// Alignment in bytes: that of a component if it is a complex number.
    pub const fn alignment(self) -> usize {
        match self {
            Self::C16 | Self::C32 | Self::C64 | Self::CLong | Self::C128 => self.size() / 2,
            _ => self.size(),
        }
    }
}

/// What a predefined type consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One element.
    One(Scalar),
    /// A value and an index, for `MPI_MINLOC` and `MPI_MAXLOC`, where C or Fortran puts them in a structure.
    Pair(Basic, Basic),
}

macro_rules! basics {
    ($($(#[$note:meta])* $variant:ident = $handle:literal, $name:literal, $form:ident($($of:ident),+);)*) => {
        /// A predefined type. Its number is the value of its handle in the ABI.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the names are the standard's")]
        #[repr(u16)]
        pub enum Basic {
            $($(#[$note])* $variant = $handle,)*
        }

        impl Basic {
            /// All of them, by handle.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The type with this handle.
            pub const fn from_handle(handle: usize) -> Option<Self> {
                match handle {
                    $($handle => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name in C.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Its components.
            #[inline]
            pub const fn form(self) -> Form {
                match self {
                    $(Self::$variant => basics!(@form $form($($of),+)),)*
                }
            }
        }
    };
    (@form One($of:ident)) => { Form::One(Scalar::$of) };
    (@form Pair($value:ident, $index:ident)) => { Form::Pair(Self::$value, Self::$index) };
}

basics! {
    Aint = 0x201, "MPI_AINT", One(I64);
    Count = 0x202, "MPI_COUNT", One(I64);
    Offset = 0x203, "MPI_OFFSET", One(I64);
    Packed = 0x207, "MPI_PACKED", One(Packed);
    Short = 0x208, "MPI_SHORT", One(I16);
    Int = 0x209, "MPI_INT", One(I32);
    Long = 0x20a, "MPI_LONG", One(I64);
    LongLong = 0x20b, "MPI_LONG_LONG", One(I64);
    UnsignedShort = 0x20c, "MPI_UNSIGNED_SHORT", One(U16);
    Unsigned = 0x20d, "MPI_UNSIGNED", One(U32);
    UnsignedLong = 0x20e, "MPI_UNSIGNED_LONG", One(U64);
    UnsignedLongLong = 0x20f, "MPI_UNSIGNED_LONG_LONG", One(U64);
    Float = 0x210, "MPI_FLOAT", One(F32);
    CFloatComplex = 0x212, "MPI_C_FLOAT_COMPLEX", One(C32);
    CxxFloatComplex = 0x213, "MPI_CXX_FLOAT_COMPLEX", One(C32);
    Double = 0x214, "MPI_DOUBLE", One(F64);
    CDoubleComplex = 0x216, "MPI_C_DOUBLE_COMPLEX", One(C64);
    CxxDoubleComplex = 0x217, "MPI_CXX_DOUBLE_COMPLEX", One(C64);
    Logical = 0x218, "MPI_LOGICAL", One(L32);
    Integer = 0x219, "MPI_INTEGER", One(I32);
    Real = 0x21a, "MPI_REAL", One(F32);
    Complex = 0x21b, "MPI_COMPLEX", One(C32);
    DoublePrecision = 0x21c, "MPI_DOUBLE_PRECISION", One(F64);
    DoubleComplex = 0x21d, "MPI_DOUBLE_COMPLEX", One(C64);
    Character = 0x21e, "MPI_CHARACTER", One(Char);
    LongDouble = 0x220, "MPI_LONG_DOUBLE", One(FLong);
    CLongDoubleComplex = 0x224, "MPI_C_LONG_DOUBLE_COMPLEX", One(CLong);
    CxxLongDoubleComplex = 0x225, "MPI_CXX_LONG_DOUBLE_COMPLEX", One(CLong);
    FloatInt = 0x228, "MPI_FLOAT_INT", Pair(Float, Int);
    DoubleInt = 0x229, "MPI_DOUBLE_INT", Pair(Double, Int);
    LongInt = 0x22a, "MPI_LONG_INT", Pair(Long, Int);
    TwoInt = 0x22b, "MPI_2INT", Pair(Int, Int);
    ShortInt = 0x22c, "MPI_SHORT_INT", Pair(Short, Int);
    LongDoubleInt = 0x22d, "MPI_LONG_DOUBLE_INT", Pair(LongDouble, Int);
    TwoReal = 0x230, "MPI_2REAL", Pair(Real, Real);
    TwoDoublePrecision = 0x231, "MPI_2DOUBLE_PRECISION", Pair(DoublePrecision, DoublePrecision);
    TwoInteger = 0x232, "MPI_2INTEGER", Pair(Integer, Integer);
    CBool = 0x238, "MPI_C_BOOL", One(L8);
    CxxBool = 0x239, "MPI_CXX_BOOL", One(L8);
    Wchar = 0x23c, "MPI_WCHAR", One(Wchar);
    Int8 = 0x240, "MPI_INT8_T", One(I8);
    Uint8 = 0x241, "MPI_UINT8_T", One(U8);
    Char = 0x243, "MPI_CHAR", One(Char);
    SignedChar = 0x244, "MPI_SIGNED_CHAR", One(I8);
    UnsignedChar = 0x245, "MPI_UNSIGNED_CHAR", One(U8);
    Byte = 0x247, "MPI_BYTE", One(Byte);
    Int16 = 0x248, "MPI_INT16_T", One(I16);
    Uint16 = 0x249, "MPI_UINT16_T", One(U16);
    Int32 = 0x250, "MPI_INT32_T", One(I32);
    Uint32 = 0x251, "MPI_UINT32_T", One(U32);
    Int64 = 0x258, "MPI_INT64_T", One(I64);
    Uint64 = 0x259, "MPI_UINT64_T", One(U64);
    Logical1 = 0x2c0, "MPI_LOGICAL1", One(L8);
    Integer1 = 0x2c1, "MPI_INTEGER1", One(I8);
    Logical2 = 0x2c8, "MPI_LOGICAL2", One(L16);
    Integer2 = 0x2c9, "MPI_INTEGER2", One(I16);
    Real2 = 0x2ca, "MPI_REAL2", One(F16);
    Logical4 = 0x2d0, "MPI_LOGICAL4", One(L32);
    Integer4 = 0x2d1, "MPI_INTEGER4", One(I32);
    Real4 = 0x2d2, "MPI_REAL4", One(F32);
    Complex4 = 0x2d3, "MPI_COMPLEX4", One(C16);
    Logical8 = 0x2d8, "MPI_LOGICAL8", One(L64);
    Integer8 = 0x2d9, "MPI_INTEGER8", One(I64);
    Real8 = 0x2da, "MPI_REAL8", One(F64);
    Complex8 = 0x2db, "MPI_COMPLEX8", One(C32);
    Logical16 = 0x2e0, "MPI_LOGICAL16", One(L128);
    Integer16 = 0x2e1, "MPI_INTEGER16", One(I128);
    Real16 = 0x2e2, "MPI_REAL16", One(F128);
    Complex16 = 0x2e3, "MPI_COMPLEX16", One(C64);
    Complex32 = 0x2eb, "MPI_COMPLEX32", One(C128);
}

impl Basic {
    /// Its handle in the ABI.
    pub const fn handle(self) -> usize {
        self as usize
    }

    /// Its place in [`Basic::ALL`].
    pub fn index(self) -> usize {
        Self::ALL
            .binary_search(&self)
            .expect("the handles are in order")
    }

    /// Bytes of data, without the gaps of a pair.
    pub const fn size(self) -> usize {
        match self.form() {
            Form::One(scalar) => scalar.size(),
            Form::Pair(value, index) => value.size() + index.size(),
        }
    }

    /// Alignment in bytes, as C has it.
    pub const fn alignment(self) -> usize {
        match self.form() {
            Form::One(scalar) => scalar.alignment(),
            Form::Pair(value, index) => {
                let (value, index) = (value.alignment(), index.alignment());
                if value > index { value } else { index }
            }
        }
    }

    /// The offset of a pair's index; 0 for other types.
    pub const fn index_offset(self) -> usize {
        match self.form() {
            Form::One(_) => 0,
            Form::Pair(value, index) => value.size().next_multiple_of(index.alignment()),
        }
    }

    /// Bytes from one element of an array to the next.
    pub const fn extent(self) -> usize {
        match self.form() {
            Form::One(scalar) => scalar.size(),
            Form::Pair(_, index) => {
                (self.index_offset() + index.size()).next_multiple_of(self.alignment())
            }
        }
    }

    /// Bytes of data in the representation `external32` (MPI 5.0 §14.5.2).
    pub const fn external32_size(self) -> usize {
        match (self, self.form()) {
            (Self::Long | Self::UnsignedLong, _) => 4,
            (Self::Wchar, _) => 2,
            (_, Form::One(scalar)) => scalar.size(),
            (_, Form::Pair(value, index)) => value.external32_size() + index.external32_size(),
        }
    }

    /// The pair type of a value's and an index's type (`MPI_Type_get_value_index`), if there is one.
    pub fn value_index(value: Self, index: Self) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|pair| pair.form() == Form::Pair(value, index))
    }

    /// The type with this class and size (`MPI_Type_match_size`, MPI 5.0 §19.1.5): a Fortran type of a given size.
    pub fn match_size(class: Class, size: usize) -> Option<Self> {
        let found = match (class, size) {
            (Class::Integer, 1) => Self::Integer1,
            (Class::Integer, 2) => Self::Integer2,
            (Class::Integer, 4) => Self::Integer4,
            (Class::Integer, 8) => Self::Integer8,
            (Class::Integer, 16) => Self::Integer16,
            (Class::Real, 2) => Self::Real2,
            (Class::Real, 4) => Self::Real4,
            (Class::Real, 8) => Self::Real8,
            (Class::Real, 16) => Self::Real16,
            (Class::Complex, 4) => Self::Complex4,
            (Class::Complex, 8) => Self::Complex8,
            (Class::Complex, 16) => Self::Complex16,
            (Class::Complex, 32) => Self::Complex32,
            (Class::Logical, 1) => Self::Logical1,
            (Class::Logical, 2) => Self::Logical2,
            (Class::Logical, 4) => Self::Logical4,
            (Class::Logical, 8) => Self::Logical8,
            (Class::Logical, 16) => Self::Logical16,
            _ => return None,
        };
        Some(found)
    }
}

/// The classes of Fortran types that [`Basic::match_size`] knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum Class {
    Logical,
    Integer,
    Real,
    Complex,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_in_order_and_tell_sizes() {
        assert!(Basic::ALL.is_sorted());
        for (at, basic) in Basic::ALL.iter().enumerate() {
            assert_eq!(Basic::from_handle(basic.handle()), Some(*basic));
            assert_eq!(basic.index(), at);
            if basic.handle() >= 0x240 {
                assert_eq!(basic.size(), 1 << (basic.handle() >> 3 & 7), "{basic:?}");
            }
        }
        assert_eq!(Basic::from_handle(0x200), None);
    }

    /// Size, extent, bytes up to the end of the last, and bytes in `external32`.
    #[test]
    fn pairs_are_laid_out_as_in_c() {
        let expected = [
            (Basic::FloatInt, 8, 8, 4),
            (Basic::DoubleInt, 12, 16, 8),
            (Basic::LongInt, 12, 16, 8),
            (Basic::TwoInt, 8, 8, 4),
            (Basic::ShortInt, 6, 8, 4),
            (Basic::LongDoubleInt, 20, 32, 16),
            (Basic::TwoReal, 8, 8, 4),
            (Basic::TwoDoublePrecision, 16, 16, 8),
            (Basic::TwoInteger, 8, 8, 4),
        ];
        for (basic, size, extent, index) in expected {
            let found = (basic.size(), basic.extent(), basic.index_offset());
            assert_eq!(found, (size, extent, index), "{basic:?}");
        }
        assert_eq!(Basic::LongInt.external32_size(), 8);
        let pair = Basic::value_index(Basic::Double, Basic::Int);
        assert_eq!(pair, Some(Basic::DoubleInt));
        assert_eq!(Basic::value_index(Basic::Int, Basic::Double), None);
    }
}
