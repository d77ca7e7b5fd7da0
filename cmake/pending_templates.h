// SPDX-License-Identifier: MIT
// The last header of a precompiled one that is made with pending_templates.cpp.
#pragma ddprun instantiate_templates
