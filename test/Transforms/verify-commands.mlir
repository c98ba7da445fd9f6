// Tests that verify-commands passes a program whose values use the same bytes one after the other.
// RUN: fsdp-opt %s --fsdp-verify-commands | FileCheck %s

// CHECK-LABEL: func.func @step
module attributes {fsdp.arenas = array<i64: 192, 0>} {
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 4>} : tensor<f32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<f32>) -> tensor<f32>
    // %x is not read any more.
    %b = fsdp.cmd.value {place = #fsdp.place<0, 64, 4>} : tensor<f32>
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<f32>) -> tensor<f32>
    %n = fsdp.cmd.value state @n {place = #fsdp.place<0, 0, 4>} : tensor<f32>
    fsdp.cmd.copy from %b : tensor<f32> to %n : tensor<f32> {block_bytes = 4 : i64}
    fsdp.cmd.record 0
    fsdp.cmd.wait 0
    return %b : tensor<f32>
  }
}
