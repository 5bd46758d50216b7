//! Which tables this machine has, and which one a program is to use.

use std::fmt;

use crate::Kernels;

/// The variable that caps the instruction set: the name of a table.
pub const ISA_VARIABLE: &str = "CANDOR_ISA";

/// `CANDOR_ISA`, or a caller, names a table that does not exist or that this machine cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIsa {
    name: String,
}

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction set {:?}: expected one that this machine has (", self.name)?;
        for (i, table) in Kernels::available().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, table.name)?;
        }
        write!(f, ")")
    }
}

impl std::error::Error for UnknownIsa {}

impl Kernels {
    /// The table of plain Rust.
    pub fn scalar() -> &'static Kernels {
        &crate::scalar::SCALAR
    }

    /// Every table that this machine can run, slowest first. Never empty: `scalar` is always there.
    pub fn available() -> impl Iterator<Item = &'static Kernels> {
        let scalar = std::iter::once(Kernels::scalar());
        #[cfg(target_arch = "x86_64")]
        let tables = {
            use crate::x86::{Amx, Avx2, Avx512, Avx512Bf16, Avx512Vnni, AvxVnni};
            let narrow = Avx2::detect().map(Avx2::kernels).into_iter();
            let narrow = narrow.chain(AvxVnni::detect().map(AvxVnni::kernels));
            let wide = Avx512::detect().map(Avx512::kernels).into_iter();
            let wide = wide.chain(Avx512Vnni::detect().map(Avx512Vnni::kernels));
            let wide = wide.chain(Avx512Bf16::detect().map(Avx512Bf16::kernels));
            let wide = wide.chain(Amx::detect().map(Amx::kernels));
            scalar.chain(narrow).chain(wide)
        };
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        let tables = {
            use crate::aarch64::{Dotprod, I8mm, Neon};
            let integers = Dotprod::detect().map(Dotprod::kernels).into_iter();
            let integers = integers.chain(I8mm::detect().map(I8mm::kernels));
            scalar.chain(Neon::detect().map(Neon::kernels)).chain(integers)
        };
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        let tables = {
            use crate::wasm;
            let tables = scalar.chain(std::iter::once(&wasm::SIMD128));
            #[cfg(target_feature = "relaxed-simd")]
            let tables = tables.chain(std::iter::once(&wasm::RELAXED));
            tables
        };
        #[cfg(not(any(
            target_arch = "x86_64",
            all(target_arch = "aarch64", target_endian = "little"),
            all(target_arch = "wasm32", target_feature = "simd128")
        )))]
        let tables = scalar;
        tables
    }

    /// Every table that this machine can run: [`available`](Kernels::available), and the exact ones of these.
    pub fn all() -> impl Iterator<Item = &'static Kernels> {
        let mut exact: Vec<&'static Kernels> = Vec::new();
        for table in Kernels::available().map(|table| table.exact) {
            if exact.iter().all(|known| known.name != table.name) {
                exact.push(table);
            }
        }
        Kernels::available().chain(exact)
    }

    /// The table with this name.
    ///
    /// # Errors
    /// [`UnknownIsa`] where no table has the name or this machine cannot run it.
    pub fn named(name: &str) -> Result<&'static Kernels, UnknownIsa> {
        Kernels::available().find(|table| table.name == name).ok_or_else(|| UnknownIsa { name: name.to_owned() })
    }

    /// The table that `CANDOR_ISA` names; the last one available where the variable is unset or empty.
    ///
    /// # Errors
    /// [`UnknownIsa`] where the variable names none.
    pub fn from_env() -> Result<&'static Kernels, UnknownIsa> {
        match std::env::var_os(ISA_VARIABLE) {
            Some(name) if !name.is_empty() => Kernels::named(&name.to_string_lossy()),
            _ => Ok(Kernels::available().last().unwrap_or(Kernels::scalar())),
        }
    }

    /// [`Kernels::from_env`] for tools and tests.
    ///
    /// # Panics
    /// Where `CANDOR_ISA` names no table: a program that reports errors calls `from_env` first.
    pub fn best() -> &'static Kernels {
        Kernels::from_env().unwrap_or_else(|error| panic!("{ISA_VARIABLE}: {error}"))
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").field("name", &self.name).finish_non_exhaustive()
    }
}
