// SPDX-License-Identifier: MIT
// A text of sentences from a small grammar, of which it is known how well it can be predicted:
//
//   line   = clause {" and " clause} ".\n", with a capital at its beginning
//   clause = phrase " " verb " " phrase
//   phrase = determiner " " [adjective " "] noun [" " preposition " " phrase]
//
// A phrase is singular or plural, and a verb agrees with its clause's first noun, however far that is: "The big cats
// near a dog see some birds." Each line can be made in one way alone, so that the entropy of lines is that of the
// choices in them.
#pragma once

#include <ddprun/random.h>

#include <string>

namespace ddprun::text {

// Appends one line. Returns the surprise of all that was chosen in it: minus the logarithm of its probability, in nats.
double append_line(std::string& text, RandomStream& random);

// The entropy of the text for each of its characters, in nats, given all before it. Its exponential is the perplexity
// that no model comes below on a long text.
double nats_per_character();

}  // namespace ddprun::text
