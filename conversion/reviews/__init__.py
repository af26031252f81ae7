"""ConversionReviews and AdmissionReviews as data: what API servers ask, and which answers they accept."""
