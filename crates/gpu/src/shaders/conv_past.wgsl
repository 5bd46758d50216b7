// Element c of the row that comes `back` rows before row t in its sequence: of the step, or of what the state keeps of earlier
// ones, `[sequence][taps - 1][width]` with the oldest row first. Before position 0 there is nothing.
struct P { width: u32, taps: u32, stride: u32, out_stride: u32, w_stride: u32 }
@group(0) @binding(0) var<uniform> p: P;

fn state_at(sequence: u32, place: u32, c: u32) -> u32 {
    return (sequence * (p.taps - 1u) + place) * p.width + c;
}

fn earlier(t: u32, c: u32, back: u32) -> f32 {
    let links = step[0].z + 1u;
    var row = t;
    var left = back;
    while left > 0u {
        let before = step[links + row].y;
        if before == 0u {
            break;
        }
        row = before - 1u;
        left -= 1u;
    }
    if left == 0u {
        return x[row * p.stride + c];
    }
    let place = step[row + 1u];
    if place.y == 0u {
        return 0.0;
    }
    return state[state_at(place.z, p.taps - 1u - left, c)];
}
