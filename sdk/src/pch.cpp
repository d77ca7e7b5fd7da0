// SPDX-License-Identifier: MIT
// Owns the precompiled header; see cmake/DdprunPch.cmake.
