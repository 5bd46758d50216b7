//! The bytes of the instructions that the kernels use, and of `sttilecfg`, which tests use: VEX with three bytes, map 0F38.

/// Bytes of the longest: VEX, opcode, ModRM, SIB and four of displacement.
pub const LONGEST: usize = 10;

/// `base + displacement`, and a register with the distance of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Relative to the next instruction where `None` and there is no index byte.
    pub base: Base,
    /// A register and the power of two that it is scaled by.
    pub index: Option<(u8, u8)>,
    pub displacement: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Register(u8),
    NextInstruction,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    Configure(Memory),
    Configuration(Memory),
    Release,
    Zero(u8),
    Load(u8, Memory),
    Store(Memory, u8),
    /// `tdpbf16ps 0, 1, 2`
    Dot(u8, u8, u8),
}

/// The instruction at the start of `code` and its length.
pub fn decode(code: &[u8; LONGEST]) -> Option<(Instruction, usize)> {
    let [0xc4, first, second, opcode, modrm, ..] = *code else { return None };
    // R, X, B and the register in `second` are stored inverted; W and L are zero.
    let (r, x, b) = (!first >> 7 & 1, !first >> 6 & 1, !first >> 5 & 1);
    let (map, wide, source, long, prefix) = (first & 31, second >> 7, !second >> 3 & 15, second >> 2 & 1, second & 3);
    if map != 2 || wide != 0 || long != 0 {
        return None;
    }
    let (mode, reg, rm) = (modrm >> 6, (modrm >> 3 & 7) | r << 3, (modrm & 7) | b << 3);
    const NONE: u8 = 0;
    const X66: u8 = 1;
    const XF3: u8 = 2;
    const XF2: u8 = 3;
    let registers = mode == 3;
    if opcode != 0x5c && source != 0 {
        return None;
    }
    let tile = |number: u8| (number < 8).then_some(number);
    match (opcode, prefix, registers) {
        (0x49, NONE, true) if modrm == 0xc0 && r == 0 => Some((Instruction::Release, 5)),
        (0x49, XF2, true) if modrm & 7 == 0 => Some((Instruction::Zero(tile(reg)?), 5)),
        (0x5c, XF3, true) => Some((Instruction::Dot(tile(reg)?, tile(rm)?, tile(source)?), 5)),
        (0x49, NONE | X66, false) if reg == 0 => {
            let (memory, length) = memory(&code[4..], x, b)?;
            let load = prefix == NONE;
            Some((if load { Instruction::Configure(memory) } else { Instruction::Configuration(memory) }, 4 + length))
        }
        // With the hint (66) and without (F2). Only addresses with a SIB byte exist.
        (0x4b, X66 | XF2 | XF3, false) if modrm & 7 == 4 => {
            let (memory, length) = memory(&code[4..], x, b)?;
            let tile = tile(reg)?;
            let load = prefix != XF3;
            Some((if load { Instruction::Load(tile, memory) } else { Instruction::Store(memory, tile) }, 4 + length))
        }
        _ => None,
    }
}

/// ModRM and what belongs to it.
fn memory(code: &[u8], x: u8, b: u8) -> Option<(Memory, usize)> {
    let (mode, rm) = (code[0] >> 6, code[0] & 7);
    let (mut base, mut index, mut length) = (Base::Register(rm | b << 3), None, 1);
    let mut bare = rm == 5;
    if rm == 4 {
        let sib = code[1];
        length = 2;
        let register = (sib >> 3 & 7) | x << 3;
        index = (register != 4).then_some((register, sib >> 6));
        base = Base::Register((sib & 7) | b << 3);
        bare = sib & 7 == 5;
    }
    let displacement = match mode {
        0 if bare => {
            base = if rm == 4 { Base::Nothing } else { Base::NextInstruction };
            4
        }
        0 => 0,
        1 => 1,
        2 => 4,
        _ => return None,
    };
    let bytes = &code[length..length + displacement];
    let displacement = match *bytes {
        [] => 0,
        [byte] => i32::from(byte as i8),
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
        _ => return None,
    };
    Some((Memory { base, index, displacement }, length + bytes.len()))
}

/// Encodings as other assemblers print them.
#[test]
fn encodings() {
    let at = |base, index, displacement| Memory { base: Base::Register(base), index, displacement };
    let cases: [(&[u8], Instruction); 12] = [
        (&[0xc4, 0xe2, 0x78, 0x49, 0x00], Instruction::Configure(at(0, None, 0))),
        (&[0xc4, 0xc2, 0x78, 0x49, 0x45, 0x40], Instruction::Configure(at(13, None, 64))),
        (&[0xc4, 0xe2, 0x79, 0x49, 0x00], Instruction::Configuration(at(0, None, 0))),
        (&[0xc4, 0xe2, 0x78, 0x49, 0xc0], Instruction::Release),
        (&[0xc4, 0xe2, 0x7b, 0x49, 0xd8], Instruction::Zero(3)),
        (&[0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x18], Instruction::Load(0, at(0, Some((3, 0)), 0))),
        (&[0xc4, 0xe2, 0x79, 0x4b, 0x34, 0x18], Instruction::Load(6, at(0, Some((3, 0)), 0))),
        (&[0xc4, 0xe2, 0x7a, 0x4b, 0x04, 0x18], Instruction::Store(at(0, Some((3, 0)), 0), 0)),
        (
            &[0xc4, 0xa2, 0x7b, 0x4b, 0xac, 0x20, 0x00, 0x04, 0x00, 0x00],
            Instruction::Load(5, at(0, Some((12, 0)), 1024)),
        ),
        (&[0xc4, 0x82, 0x7b, 0x4b, 0x44, 0x7c, 0xf0], Instruction::Load(0, at(12, Some((15, 1)), -16))),
        (&[0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x20], Instruction::Load(0, at(0, None, 0))),
        (&[0xc4, 0xe2, 0x62, 0x5c, 0xca], Instruction::Dot(1, 2, 3)),
    ];
    for (bytes, instruction) in cases {
        let mut code = [0xcc; LONGEST];
        code[..bytes.len()].copy_from_slice(bytes);
        assert_eq!(decode(&code), Some((instruction, bytes.len())), "{bytes:02x?}");
    }
    for other in [[0x0f, 0x0b, 0, 0, 0], [0xc4, 0xe2, 0x63, 0x5e, 0xca], [0xc4, 0xe1, 0x7b, 0x49, 0xd8]] {
        let mut code = [0; LONGEST];
        code[..5].copy_from_slice(&other);
        assert_eq!(decode(&code), None, "{other:02x?}");
    }
}
