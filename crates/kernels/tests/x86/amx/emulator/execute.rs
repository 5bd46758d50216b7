//! What the instructions do, as the manual's pseudocode has it.

use std::ptr;

use super::decode::{Base, Instruction, Memory};

const ROWS: usize = 16;
const ROW_BYTES: usize = 64;

/// A tile: rows of dwords, as large as its configuration says.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    row_bytes: usize,
    data: [[u32; ROW_BYTES / 4]; ROWS],
}

/// The tile registers of a thread.
pub struct Tiles {
    configured: bool,
    tiles: [Tile; 8],
}

/// What addresses are made of.
pub struct Registers {
    pub general: [usize; 16],
    /// Address of the next instruction.
    pub next: usize,
}

impl Registers {
    /// Address of the first row and distance of rows.
    fn address(&self, memory: Memory) -> (usize, usize) {
        let base = match memory.base {
            Base::Register(register) => self.general[usize::from(register)],
            Base::NextInstruction => self.next,
            Base::Nothing => 0,
        };
        let stride = memory.index.map_or(0, |(register, scale)| self.general[usize::from(register)] << scale);
        (base.wrapping_add_signed(memory.displacement as isize), stride)
    }
}

impl Tiles {
    const EMPTY: Tile = Tile { rows: 0, row_bytes: 0, data: [[0; ROW_BYTES / 4]; ROWS] };
    pub const RELEASED: Tiles = Tiles { configured: false, tiles: [Tiles::EMPTY; 8] };

    /// # Safety
    /// Memory that the instruction reads or writes may be read or written.
    pub unsafe fn execute(&mut self, instruction: Instruction, registers: &Registers) -> Result<(), &'static str> {
        match instruction {
            Instruction::Configure(memory) => {
                let (at, _) = registers.address(memory);
                // SAFETY: the instruction reads 64 bytes.
                let bytes: [u8; 64] = unsafe { ptr::read_unaligned(at as *const _) };
                return self.configure(&bytes);
            }
            Instruction::Configuration(memory) => {
                let (at, _) = registers.address(memory);
                // SAFETY: the instruction writes 64 bytes.
                unsafe { ptr::write_unaligned(at as *mut [u8; 64], self.configuration()) };
                return Ok(());
            }
            Instruction::Release => {
                *self = Tiles::RELEASED;
                return Ok(());
            }
            _ if !self.configured => return Err("a tile without configuration"),
            Instruction::Zero(tile) => self.used(tile)?.data = Tiles::EMPTY.data,
            Instruction::Load(tile, memory) => {
                let tile = self.used(tile)?;
                let (at, stride) = registers.address(memory);
                tile.data = Tiles::EMPTY.data;
                for (row, data) in tile.data[..tile.rows].iter_mut().enumerate() {
                    let from = at.wrapping_add(row.wrapping_mul(stride)) as *const u8;
                    // SAFETY: the instruction reads as many bytes of each row, at most a row of `data`.
                    unsafe { ptr::copy_nonoverlapping(from, data.as_mut_ptr().cast(), tile.row_bytes) };
                }
            }
            Instruction::Store(memory, tile) => {
                let tile = self.used(tile)?;
                let (at, stride) = registers.address(memory);
                for (row, data) in tile.data[..tile.rows].iter().enumerate() {
                    let to = at.wrapping_add(row.wrapping_mul(stride)) as *mut u8;
                    // SAFETY: the instruction writes as many bytes of each row, at most a row of `data`.
                    unsafe { ptr::copy_nonoverlapping(data.as_ptr().cast(), to, tile.row_bytes) };
                }
            }
            Instruction::Dot(sum, a, b) => {
                if sum == a || sum == b || a == b {
                    return Err("the same tile twice");
                }
                let (a, b) = (*self.used(a)?, *self.used(b)?);
                let sum = self.used(sum)?;
                if sum.rows != a.rows || sum.row_bytes != b.row_bytes || a.row_bytes != 4 * b.rows {
                    return Err("tiles that do not fit");
                }
                // SAFETY: tests of AMX run on processors with AVX-512, and so with FMA.
                unsafe { dot(sum, &a, &b) };
            }
        }
        Ok(())
    }

    fn configure(&mut self, bytes: &[u8; 64]) -> Result<(), &'static str> {
        if bytes[0] == 0 {
            *self = Tiles::RELEASED;
            return Ok(());
        }
        if bytes[0] != 1 || bytes[1..16].iter().any(|&byte| byte != 0) {
            return Err("a palette or start row that is not expected");
        }
        // Tiles 8 to 15 do not exist.
        if bytes[32..48].iter().chain(&bytes[56..]).any(|&byte| byte != 0) {
            return Err("reserved bytes of the configuration");
        }
        self.configured = true;
        for (i, tile) in self.tiles.iter_mut().enumerate() {
            *tile = Tiles::EMPTY;
            tile.row_bytes = usize::from(u16::from_le_bytes([bytes[16 + 2 * i], bytes[17 + 2 * i]]));
            tile.rows = usize::from(bytes[48 + i]);
            let empty = [tile.rows, tile.row_bytes].map(|size| size == 0);
            if tile.rows > ROWS || tile.row_bytes > ROW_BYTES || tile.row_bytes % 4 != 0 || empty[0] != empty[1] {
                return Err("a tile of a size that there is not");
            }
        }
        Ok(())
    }

    /// All zeros without configuration.
    fn configuration(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0] = u8::from(self.configured);
        for (i, tile) in self.tiles.iter().enumerate() {
            bytes[16 + 2 * i] = tile.row_bytes as u8;
            bytes[48 + i] = tile.rows as u8;
        }
        bytes
    }

    fn used(&mut self, tile: u8) -> Result<&mut Tile, &'static str> {
        let tile = &mut self.tiles[usize::from(tile)];
        if tile.rows == 0 { Err("a tile without rows") } else { Ok(tile) }
    }
}

/// Denormals are zero, of either sign.
#[inline(always)]
fn flush(x: f32) -> f32 {
    if x.to_bits() & 0x7f80_0000 == 0 { f32::from_bits(x.to_bits() & 0x8000_0000) } else { x }
}

/// The even and the odd elements of pairs are summed apart, fused, then added, then added to the sum; every operand and
/// result that is denormal is zero. (The older pseudocode of the intrinsics' guide adds both products in sequence.)
#[target_feature(enable = "avx2,fma")]
fn dot(sum: &mut Tile, a: &Tile, b: &Tile) {
    let even = |pair: u32| flush(f32::from_bits(pair << 16));
    let odd = |pair: u32| flush(f32::from_bits(pair & 0xffff_0000));
    for (out, a) in sum.data[..sum.rows].iter_mut().zip(&a.data) {
        let mut temporary = [[0f32; ROW_BYTES / 4]; 2];
        for (&pair, b) in a.iter().zip(&b.data[..b.rows]) {
            let a = [even(pair), odd(pair)];
            for n in 0..ROW_BYTES / 4 {
                temporary[0][n] = flush(a[0].mul_add(even(b[n]), temporary[0][n]));
                temporary[1][n] = flush(a[1].mul_add(odd(b[n]), temporary[1][n]));
            }
        }
        for n in 0..sum.row_bytes / 4 {
            let both = flush(temporary[0][n] + temporary[1][n]);
            out[n] = flush(flush(f32::from_bits(out[n])) + both).to_bits();
        }
    }
}
