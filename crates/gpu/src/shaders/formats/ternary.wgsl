// Digits 0, 1 and 2, four to a word, as signed bytes that are one less.
fn lowered(digits: vec4<u32>) -> vec4<u32> {
    return (digits + vec4<u32>(0x7f7f7f7fu)) ^ vec4<u32>(0x80808080u);
}
