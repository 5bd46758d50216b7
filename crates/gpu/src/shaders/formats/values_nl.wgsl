// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113
const VALUES = array<u32, 4>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
