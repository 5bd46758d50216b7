// Twice the values of E2M1: 0 1 2 3 4 6 8 12, then the same negated
const VALUES = array<u32, 4>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
